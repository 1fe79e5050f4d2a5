package api

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// A step that waits counts, be it the first unfinished one or not. A job that has ended ends each wait.
func TestUntil(t *testing.T) {
	job := func(states ...op.State) Job {
		j := Job{State: states[0]}
		for _, s := range states {
			j.Steps = append(j.Steps, Step{State: s})
		}
		return j
	}
	for _, c := range []struct {
		job                     Job
		ended, pending, decided bool
	}{
		{job(op.StatePlanned), false, false, true},
		{job(op.StatePending), false, true, false},
		{job(op.StatePlanned, op.StatePending), false, true, false},
		{job(op.StateAuthorized, op.StatePlanned), false, false, true},
		{job(op.StateDispatched), false, false, true},
		{job(op.StateSucceeded), true, true, true},
		{job(op.StateRejected), true, true, true},
		{job(op.StateFailed), true, true, true},
	} {
		require.Equal(t, c.ended, UntilEnded.Met(c.job), c.job)
		require.Equal(t, c.pending, UntilPending.Met(c.job), c.job)
		require.Equal(t, c.decided, UntilDecided.Met(c.job), c.job)
	}
	for _, u := range Untils {
		require.NoError(t, u.Check())
	}
	require.ErrorIs(t, Until("").Check(), refusal.Malformed)
	require.ErrorIs(t, Until("ENDED").Check(), refusal.Malformed)
}
