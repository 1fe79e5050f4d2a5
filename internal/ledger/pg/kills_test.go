package pg_test

import (
	"flag"
	"testing"
	"time"

	"gated/internal/test/postgres"
)

var (
	restarts   = flag.Int("restarts", 2, "how often TestKilledAndRestarted kills the primary")
	baseMiB    = flag.Int("base", 32, "MiB of the group that TestALargeGroupIsReadInPieces begins with")
	rounds     = flag.Int("rounds", 1, "how often TestNoFaultLosesWhatWasTold has each fault")
	promotions = flag.Int("promotions", 1, "how often TestKilledAndPromoted kills a primary")
)

func writersOn(t testing.TB, dsn string, n int) (out []*writer) {
	t.Helper()
	for range n {
		s := newGate(t, dsn)
		s.Limit = 2 * time.Second
		out = append(out, newWriter(t, s))
	}
	return out
}

// caughtUp waits until the standby shows what it has on disk: a group is acknowledged before that.
func caughtUp(t testing.TB, pair *postgres.Pair) {
	t.Helper()
	end := pair.First.Exec(t, `SELECT pg_current_wal_flush_lsn()`)[0][0]
	pair.Second.Until(t, `SELECT pg_last_wal_replay_lsn() >= '`+end+`'::pg_lsn`)
}

func TestKilledAndRestarted(t *testing.T) {
	pair := postgres.NewPair(t)
	writers := writersOn(t, pair.DSN(), 4)
	load(t, writers, func(more func(n int)) {
		for range *restarts {
			more(40)
			pair.First.Kill(t)
			pair.First.Start(t)
		}
		more(40)
	})
	caughtUp(t, pair)
	for _, c := range []*postgres.Cluster{pair.First, pair.Second} {
		told, lost := lost(t, c, writers)
		t.Logf("%d kills, %d groups acknowledged, %d of them lost", *restarts, told, lost)
	}
}

func TestKilledAndPromoted(t *testing.T) {
	for range *promotions {
		pair := postgres.NewPair(t)
		writers := writersOn(t, pair.DSN(), 4)
		load(t, writers, func(more func(n int)) {
			more(100)
			pair.First.Kill(t)
			pair.Second.Promote(t)
			// The promoted server has no standby: the writers hear that nothing is kept, until it has one.
			pair.Second.Standby(t, "third", pair.Second.Port)
			pair.Second.Set(t, "synchronous_standby_names", "third")
			pair.Second.Synchronous(t)
			more(100)
		})
		told, lost := lost(t, pair.Second, writers)
		t.Logf("%d groups acknowledged, %d of them lost", told, lost)
	}
}
