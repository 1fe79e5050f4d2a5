package pg_test

import (
	"testing"
	"time"

	"gated/internal/test/postgres"

	"github.com/stretchr/testify/require"
)

// faults happen to a pair under load. Each ends with the pair as it was.
var faults = map[string]func(t *testing.T, pair *postgres.Pair){
	"gates cannot reach the primary": func(_ *testing.T, pair *postgres.Pair) {
		pair.ToFirst.Partition(true)
		<-time.After(hold)
		pair.ToFirst.Partition(false) // and what they said is late
	},
	"gates' connections are cut": func(_ *testing.T, pair *postgres.Pair) { pair.ToFirst.Cut() },
	"answers are lost": func(_ *testing.T, pair *postgres.Pair) {
		pair.ToFirst.Deafen(true)
		<-time.After(hold)
		pair.ToFirst.Deafen(false)
		pair.ToFirst.Cut()
	},
	"a statement arrives by half": func(_ *testing.T, pair *postgres.Pair) { pair.ToFirst.Halve() },
	"the standby cannot reach the primary": func(_ *testing.T, pair *postgres.Pair) {
		pair.Link.Partition(true)
		<-time.After(hold)
		pair.Link.Partition(false)
	},
	"the primary is alone": func(_ *testing.T, pair *postgres.Pair) {
		pair.Link.Partition(true)
		pair.ToFirst.Partition(true)
		<-time.After(hold)
		pair.ToFirst.Partition(false)
		<-time.After(hold)
		pair.Link.Partition(false)
	},
	"waits are cancelled": func(t *testing.T, pair *postgres.Pair) { released(t, pair, `SELECT pg_cancel_backend(pid) `) },
	"waits are terminated": func(t *testing.T, pair *postgres.Pair) {
		released(t, pair, `SELECT pg_terminate_backend(pid) `)
	},
	"synchronous_standby_names is emptied while commits wait": func(t *testing.T, pair *postgres.Pair) {
		pair.Link.Partition(true)
		pair.First.Until(t, `SELECT count(*) > 0 `+backend)
		pair.First.Set(t, "synchronous_standby_names", "")
		pair.First.Until(t, `SELECT count(*) = 0 `+backend)
		pair.First.Set(t, "synchronous_standby_names", "second")
		pair.Link.Partition(false)
	},
	"the standby is stopped": func(t *testing.T, pair *postgres.Pair) {
		pair.Second.Stop(t)
		<-time.After(hold)
		pair.Second.Start(t)
	},
	"the primary is killed while commits wait": func(t *testing.T, pair *postgres.Pair) {
		pair.Link.Partition(true)
		pair.First.Until(t, `SELECT count(*) > 0 `+backend)
		pair.First.Kill(t)
		pair.First.Start(t)
		pair.Link.Partition(false)
	},
	"both servers are killed": func(t *testing.T, pair *postgres.Pair) {
		pair.First.Kill(t)
		pair.Second.Kill(t)
		pair.First.Start(t)
		pair.Second.Start(t)
	},
}

// hold is longer than the limit of a call.
const hold = 1500 * time.Millisecond

// released ends waits for a standby that cannot answer.
func released(t *testing.T, pair *postgres.Pair, by string) {
	t.Helper()
	pair.Link.Partition(true)
	pair.First.Until(t, `SELECT count(*) > 0 `+backend)
	pair.First.Exec(t, by+backend)
	pair.Link.Partition(false)
}

// TestNoFaultLosesWhatWasTold has each fault under load, one after the other on one pair, while two daemons of a gate take
// turns with each fault. At the end the primary is killed, and the standby has what was told.
func TestNoFaultLosesWhatWasTold(t *testing.T) {
	pair := postgres.NewPair(t)
	var writers []*writer
	for range 3 {
		s := newGate(t, pair.DSN())
		s.Limit = time.Second
		writers = append(writers, newWriter(t, s))
	}
	rivals := []*writer{writers[0], newRival(t, writers[0])}
	writers = append(writers, rivals[1])
	load(t, writers, func(more func(int)) {
		for range *rounds {
			for name, fault := range faults {
				more(20)
				for _, w := range rivals {
					select {
					case w.turn <- struct{}{}:
					default:
					}
				}
				t.Log(name)
				fault(t, pair)
				pair.First.Synchronous(t)
			}
		}
		more(50)
	})
	caughtUp(t, pair)
	told, _ := lost(t, pair.First, writers)
	require.Positive(t, rivals[1].takes)
	both := toldByBoth(rivals)
	require.Empty(t, both, "two daemons were told of a group of one number")
	pair.First.Kill(t)
	pair.Second.Promote(t)
	_, missing := lost(t, pair.Second, writers)
	t.Logf("%d rounds of %d faults, %d takeovers, %d groups told, %d of them lost, %d told by both daemons", *rounds, len(faults), rivals[0].takes+rivals[1].takes, told, missing, len(both))
	require.Greater(t, told, 20*len(faults))
}

// toldByBoth returns the numbers of which both daemons of a gate were told that their own group is kept.
func toldByBoth(rivals []*writer) (both []uint64) {
	for n := range rivals[0].told {
		if _, also := rivals[1].told[n]; also {
			both = append(both, n)
		}
	}
	return both
}
