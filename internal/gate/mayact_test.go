package gate_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

var errNotActive = refusal.New(refusal.Unavailable, "another member may have taken over")

// A daemon that may not act dispatches nothing. If it learns so only after the commit, the driver does nothing all the same.
func TestADaemonThatMayNotActDoesNothing(t *testing.T) {
	w, r := newRequest(t, "a")
	answers := []error{errNotActive, nil, errNotActive}
	w.held = func() error {
		err := answers[0]
		answers = answers[1:]
		return err
	}
	w.restart()
	w.mustApprove(r)
	require.ErrorIs(t, w.execute(r.ID), refusal.Unavailable)
	require.Equal(t, op.StateAuthorized, w.job(r.ID.Job).State(), "it waits")
	require.ErrorIs(t, w.execute(r.ID), refusal.Unavailable)
	require.Equal(t, op.StateDispatched, w.job(r.ID.Job).State(), "that was committed")
	require.Empty(t, w.back.did())
	require.Empty(t, answers)
}
