package reconcile

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
)

// TestATargetGoesOnAfterAStep: no round comes between the steps.
func TestATargetGoesOnAfterAStep(t *testing.T) {
	t.Run("succeeded", func(t *testing.T) {
		w := newWorld(t, "a")
		w.submit(ask("guest.stop", "a", nil))
		w.submit(ask("guest.start", "a", nil))
		w.work()
		require.Equal(t, []string{"guest.stop a succeeded", "guest.start a succeeded"}, w.steps())
	})
	t.Run("a set wishes something else", func(t *testing.T) {
		w := newWorld(t, "a")
		w.wish("[{name: a, state: running}]")
		w.work()
		w.submit(ask("guest.stop", "a", nil))
		w.work()
		require.Equal(t, []string{"guest.stop a succeeded", "guest.start a succeeded"}, w.steps())
	})
	t.Run("refused", func(t *testing.T) {
		w := newWorld(t, "a")
		first := w.submit(ask("guest.destroy", "a", nil))
		w.approve(w.request())
		w.submit(ask("guest.start", "a", nil))
		w.fleet.change("a", func(o *op.Observed) { o.Snapshots = []string{"precious"} })
		w.work()
		require.Equal(t, op.StateRefused, w.job(first.ID).State())
		require.Equal(t, []string{"guest.destroy a refused", "guest.start a succeeded"}, w.steps())
	})
	t.Run("another step of its job is on another target", func(t *testing.T) {
		w := newWorld(t, "a", "b")
		w.submit(ask("guest.stop", "a", nil), ask("guest.stop", "b", nil))
		w.work()
		require.Equal(t, []string{"guest.stop a succeeded", "guest.stop b succeeded"}, w.steps())
	})
}

// TestTheEndOfASignedStepEndsItsMark: otherwise later unsigned steps of the target
// would go before all others. A mark that came while the step ran stays.
func TestTheEndOfASignedStepEndsItsMark(t *testing.T) {
	w := newWorld(t, "a")
	w.submit(ask("guest.destroy", "a", nil))
	w.approve(w.request())
	a := guestTarget("a")
	require.NotZero(t, w.r.queue.mark(a))
	w.work()
	require.Equal(t, []string{"guest.destroy a succeeded"}, w.steps())
	require.Zero(t, w.r.queue.mark(a))

	w.r.queue.addSigned(a)
	old := w.r.queue.mark(a)
	w.r.queue.addSigned(a)
	require.False(t, w.r.goesOn(a, old))
	require.NotZero(t, w.r.queue.mark(a))
	w.r.Wake(a)
	require.True(t, w.r.goesOn(a, w.r.queue.mark(a)), "the gate woke it since")
	require.NotZero(t, w.r.queue.mark(a))
}

// TestALookNeedsARequestThatWaits: a woken target without one is not looked at again.
func TestALookNeedsARequestThatWaits(t *testing.T) {
	w := newWorld(t, "a")
	looks := func() int {
		target, ok := w.r.queue.get()
		require.True(t, ok)
		w.r.process(w.ctx, target, false)
		w.r.queue.done(target)
		_, n := w.r.queue.lengths()
		return n
	}
	w.submit(ask("guest.stop", "a", nil))
	require.Zero(t, looks())
	w.submit(ask("guest.destroy", "a", nil))
	require.Equal(t, 1, looks())
}

// TestALookThatTheDriverCannotMakeIsMadeLater: a wished target that the driver
// cannot look at keeps the look at its requests.
func TestALookThatTheDriverCannotMakeIsMadeLater(t *testing.T) {
	w := newWorld(t, "a")
	w.wish("[{name: a, state: running}]")
	w.work()
	w.submit(ask("guest.destroy", "a", nil))
	w.work()
	w.fleet.change("a", func(o *op.Observed) { o.Running = "unknown" })
	a := guestTarget("a")
	w.r.Wake(a)
	target, ok := w.r.queue.get()
	require.True(t, ok)
	require.Equal(t, a, target)
	w.r.process(w.ctx, target, false)
	w.r.queue.done(target)
	_, looks := w.r.queue.lengths()
	require.Equal(t, 1, looks)
}
