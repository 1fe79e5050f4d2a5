package reconcile

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// A look that takes long does not run what desired state ceased to wish for in that time. The next pass takes it back.
func TestWhatIsNotWishedForAfterTheLookDoesNotRun(t *testing.T) {
	for name, wishes := range map[string]string{
		"no wish at all":  "[]",
		"another wish":    "[{name: a, state: running}]",
		"of another name": "[{name: b, state: absent}]",
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "a")
			w.wish("[{name: a, state: absent}]")
			w.approve(w.request())
			w.fleet.before = func(op.Step) error {
				w.source.put("site", "apiVersion: gated/v1\nhost: pve1\nguests: "+wishes+"\n")
				w.r.read(w.ctx)
				return nil
			}
			w.work()
			require.True(t, w.fleet.has("a"))
			require.Equal(t, []string{"guest.destroy a cancelled"}, w.steps())
		})
	}
}

// A document that says the same anew does not keep a step back.
func TestTheSameWishAgainLetsAStepRun(t *testing.T) {
	w := newWorld(t, "a")
	w.wish("[{name: a, state: absent}]")
	w.approve(w.request())
	again := sync.OnceFunc(func() {
		w.source.put("site", "apiVersion: gated/v1\nhost: pve1\nguests: [{name: a, state: absent}] # anew\n")
		w.r.read(w.ctx)
	})
	w.fleet.before = func(op.Step) error { again(); return nil }
	w.work()
	require.False(t, w.fleet.has("a"))
	require.Equal(t, []string{"guest.destroy a succeeded"}, w.steps())
}

// A set that changes with each look keeps no step of others back: no wish speaks for it or against it.
func TestAnAgentsStepRunsWhileWishesChange(t *testing.T) {
	w := newWorld(t, "a")
	w.submit(ask("guest.stop", "a", nil))
	w.fleet.before = func(op.Step) error {
		w.source.put("site", "apiVersion: gated/v1\nhost: pve1\nguests: [{name: a}]\n")
		w.r.read(w.ctx)
		return nil
	}
	w.work()
	require.Equal(t, []string{"guest.stop a succeeded"}, w.steps())
}

// Something comes in the way of a step that waits for signatures. The set goes on wishing for it, in each round and after a
// restart, and it runs once the way is clear and it is signed.
func TestAWishThatCannotBeDoneNowGoesOnWaiting(t *testing.T) {
	w := newWorld(t, "a")
	w.wish("[{name: a, state: absent}]")
	r := w.request()
	w.fleet.cannot = refusal.New(refusal.Conflict, "something is mounted in it")
	w.look()
	w.restart()
	w.look()
	require.Equal(t, r.Payload, w.request().Payload)
	require.Empty(t, w.r.target(guestTarget("a")).stopped, "nothing has ended")
	w.fleet.cannot = nil
	w.approve(r)
	w.work()
	require.False(t, w.fleet.has("a"))
	require.Equal(t, []string{"guest.destroy a succeeded"}, w.steps())
}
