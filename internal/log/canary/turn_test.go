package canary_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/store"
	"gated/internal/log/audit"
	"gated/internal/log/canary"
)

// TestALookEnds: Step ends even if the log is long or grows, and the next one
// continues there.
func TestALookEnds(t *testing.T) {
	w := newWorld(t)
	w.policy("good")
	w.step()
	const most = 40 * 500
	for range 6 {
		w.decide(audit.Planned, 4000)
	}
	require.EqualValues(t, 1+most, w.step().Cursor)
	require.EqualValues(t, 1+6*4000, w.step().Cursor)
}

// thinking stops a Step in the middle of a batch until goOn is closed.
func (w *world) thinking() (done <-chan error, goOn chan<- struct{}) {
	w.policy("good")
	w.decide(audit.Planned, 100)
	w.policy("bad")
	w.decide(audit.Refused, 10)
	thinks, wait, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	w.canary.Back = func(canary.Identity, canary.Identity) string {
		close(thinks)
		<-wait
		return "back"
	}
	go func() { ended <- w.canary.Step(context.Background()) }()
	select {
	case <-thinks:
	case err := <-ended:
		require.Fail(w.t, "there was no alert", "%v", err)
	}
	return ended, wait
}

// TestAcceptGivesUp: Accept gives up when its caller does, whatever the canary does,
// and so does another Step.
func TestAcceptGivesUp(t *testing.T) {
	w := newWorld(t)
	done, goOn := w.thinking()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, err := range []error{w.canary.Accept(ctx, "uid:0", 102), w.canary.Step(ctx)} {
		require.ErrorIs(t, err, store.ErrUnavailable)
		require.ErrorIs(t, err, context.Canceled)
	}
	close(goOn)
	require.NoError(t, <-done)
	require.NoError(t, w.canary.Accept(t.Context(), "uid:0", 102))
}

// TestAcceptHasItsTurn: Accept runs after the present batch.
func TestAcceptHasItsTurn(t *testing.T) {
	w := newWorld(t)
	asked := make(chan error, 1)
	done, goOn := w.thinking()
	go func() { asked <- w.canary.Accept(context.Background(), "uid:0", 102) }()
	close(goOn)
	require.NoError(t, <-done)
	require.NoError(t, <-asked)
	require.NotZero(t, w.canary.Shown().Watch.Ended)
}
