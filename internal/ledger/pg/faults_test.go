package pg_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"gated/internal/ledger"
	"gated/internal/ledger/pg"
	"gated/internal/test/must"
	"gated/internal/test/postgres"

	"github.com/stretchr/testify/require"
)

// waiting begins an append that waits for its standby, because the link between the servers is cut.
func waiting(t *testing.T, pair *postgres.Pair, e *pg.Engine, g ledger.Group) <-chan error {
	t.Helper()
	pair.Link.Partition(true)
	done := make(chan error, 1)
	go func() { done <- e.Append(g) }()
	pair.First.Until(t, `SELECT count(*) = 1 FROM pg_stat_activity WHERE wait_event = 'SyncRep'`)
	return done
}

const backend = `FROM pg_stat_activity WHERE wait_event = 'SyncRep'`

func writerOn(t *testing.T, dsn string, limit time.Duration) *writer {
	t.Helper()
	s := newGate(t, dsn)
	s.Limit = limit
	w := newWriter(t, s)
	require.NoError(t, w.engine.Append(w.attempt(1)))
	return w
}

// Each of these shows the row on the primary, and it is on no standby. It is lost with the primary.
func TestWhatReleasesAWaitingCommitAcknowledgesNothing(t *testing.T) {
	for name, release := range map[string]func(t *testing.T, pair *postgres.Pair){
		"pg_cancel_backend": func(t *testing.T, pair *postgres.Pair) { pair.First.Exec(t, `SELECT pg_cancel_backend(pid) `+backend) },
		"pg_terminate_backend": func(t *testing.T, pair *postgres.Pair) {
			pair.First.Exec(t, `SELECT pg_terminate_backend(pid) `+backend)
		},
		"synchronous_standby_names is emptied": func(t *testing.T, pair *postgres.Pair) {
			pair.First.Exec(t, `ALTER SYSTEM SET synchronous_standby_names = ''`)
			pair.First.Exec(t, `SELECT pg_reload_conf()`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			pair := postgres.NewPair(t)
			w := writerOn(t, pair.DSN(), 5*time.Second)
			done := waiting(t, pair, w.engine, w.attempt(2))
			release(t, pair)
			require.ErrorIs(t, <-done, ledger.ErrInDoubt)
			pair.First.Until(t, `SELECT count(*) = 2 FROM gated.groups`)
			_, err := w.engine.Settle(w.era, 2)
			require.ErrorIs(t, err, ledger.ErrUnavailable, "the standby has no marker")
			require.ErrorIs(t, w.engine.Append(w.attempt(3)), ledger.ErrUnavailable, "before it is settled")
			pair.First.Kill(t)
			pair.Second.Promote(t)
			pair.Second.Until(t, `SELECT count(*) = 1 FROM gated.groups`)

			single := w.settings
			single.Single = true
			kept := must.Get(open(t, single).Settle(w.era, 2))(t)
			require.False(t, kept)
		})
	}
}

func TestAStandbyThatIsDownMakesAllWait(t *testing.T) {
	pair := postgres.NewPair(t)
	w := writerOn(t, pair.DSN(), 2*time.Second)
	pair.Second.Stop(t)
	require.ErrorIs(t, w.engine.Append(w.attempt(2)), ledger.ErrInDoubt)
	require.ErrorIs(t, w.engine.Beat(w.era), ledger.ErrUnavailable)
	_, err := w.engine.Settle(w.era, 2)
	require.ErrorIs(t, err, ledger.ErrUnavailable)
	waits := pair.First.Exec(t, `SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'`)
	require.Equal(t, "1", waits[0][0], "the append still waits: its statement is not cancelled when its socket is closed")
	pair.Second.Start(t)
	pair.First.Synchronous(t)
	require.True(t, must.Get(w.engine.Settle(w.era, 2))(t))
	require.NoError(t, w.engine.Append(w.attempt(3)))
	require.NoError(t, w.engine.Beat(w.era))
}

func TestBothLinksArePartitionedAndTheStandbyIsPromoted(t *testing.T) {
	pair := postgres.NewPair(t)
	w := writerOn(t, pair.DSN(), 2*time.Second)
	pair.ToFirst.Partition(true)
	pair.Link.Partition(true)
	require.ErrorIs(t, w.engine.Append(w.attempt(2)), ledger.ErrInDoubt)
	pair.Second.Promote(t)
	// Two primaries are alive now, and an administrator empties both lists: neither keeps a group.
	for _, c := range []*postgres.Cluster{pair.First, pair.Second} {
		c.Set(t, "synchronous_standby_names", "")
	}
	_, err := w.engine.Settle(w.era, 2)
	require.ErrorIs(t, err, ledger.ErrUnavailable)
	pair.ToFirst.Partition(false)
	second := w.settings
	second.Connection = postgres.DSN(pair.ToSecond.Port)
	_, err = pg.Open(context.Background(), second)
	require.ErrorContains(t, err, "no synchronous standby")
	_, err = w.engine.Settle(w.era, 2)
	require.ErrorIs(t, err, ledger.ErrUnavailable)
	_, err = w.engine.Take(context.Background(), w.era)
	require.ErrorContains(t, err, "no synchronous standby")
}

func TestAnAppendThatIsLateFindsItsFence(t *testing.T) {
	pair := postgres.NewPair(t)
	late := postgres.NewProxy(t, pair.First.Port)
	w := writerOn(t, postgres.DSN(late.Port, pair.ToFirst.Port), 6*time.Second)
	late.Partition(true)
	require.ErrorIs(t, w.engine.Append(w.attempt(2)), ledger.ErrInDoubt)
	require.False(t, must.Get(w.engine.Settle(w.era, 2))(t))
	before := pair.First.Exec(t, `SELECT count(*) FROM pg_stat_activity WHERE application_name = '' AND datname IS NOT NULL`)
	late.Partition(false)
	// The server has run what was late when its session has ended.
	pair.First.Until(t, fmt.Sprintf(`SELECT count(*) < %s FROM pg_stat_activity WHERE application_name = '' AND datname IS NOT NULL`, before[0][0]))
	pair.First.Until(t, `SELECT count(*) = 1 FROM gated.groups`)
	w.never[2]++
	require.NoError(t, w.engine.Append(w.attempt(2)))
	w.told[2] = string(w.attempt(2).Body)
	caughtUp(t, pair)
	_, lost := lost(t, pair.Second, []*writer{w})
	require.Zero(t, lost)
}
