package reconcile

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// wants counts what desired state asks the gate for.
type wants struct {
	Gate
	n int
}

func (w *wants) Want(ctx context.Context, set string, ask op.Ask) (op.Job, error) {
	w.n++
	return w.Gate.Want(ctx, set, ask)
}

var mounted = refusal.New(refusal.Conflict, "something is mounted in it")

// hour lets an hour of rounds pass.
func (w *world) hour() {
	for range int(time.Hour / DefaultInterval) {
		w.time.pass(DefaultInterval)
		w.look()
	}
}

// The first request of a wish is refused, because a look sees something in the way. While that is there, looks alone ask after it,
// ever more rarely. Once it has gone, the wish is asked again.
func TestAWishIsAskedAgainWhenTheWayIsClear(t *testing.T) {
	for name, c := range map[string]struct{ wish, then string }{
		"it waits for an operator": {"[{name: a, state: absent}]", "guest.destroy a pending_signature"},
		"it runs at once":          {"[{name: a, state: stopped}]", "guest.stop a succeeded"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "a")
			asked := &wants{Gate: w.r.Gate}
			w.r.Gate, w.fleet.cannot = asked, mounted
			w.wish(c.wish)
			w.hour()
			require.Equal(t, 1, asked.n, "looks do not ask the gate")
			require.Less(t, w.fleet.probed, 40, "in an hour")
			require.Greater(t, w.fleet.probed, 10, "it goes on")
			require.Equal(t, mounted.Detail, w.r.Status().Stopped[0].Detail)
			require.True(t, w.r.Status().Stopped[0].Waits)
			require.Empty(t, w.steps())

			w.fleet.cannot = nil
			w.time.pass(maxDelay)
			w.look()
			require.Equal(t, []string{c.then}, w.steps())
			require.Empty(t, w.r.Status().Stopped)
		})
	}
}

// A wish that no state of its target makes possible ends, and is not asked again. Another wish is.
func TestAWishThatNoStateMakesPossibleEnds(t *testing.T) {
	for name, early := range map[string]bool{"the gate's look shows it": true, "it is refused when it would run": false} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "a")
			asked := &wants{Gate: w.r.Gate}
			w.r.Gate, w.fleet.never = asked, true
			if no := refusal.New(refusal.NotAllowed, "it would run as root"); early {
				w.fleet.cannot = no
			} else {
				w.fleet.before = func(op.Step) error { w.fleet.cannot = no; return no }
			}
			w.wish("[{name: a, state: stopped}]")
			w.work()
			w.hour()
			require.Equal(t, 1, asked.n)
			require.Less(t, w.fleet.probed, 8, "no look asks after it")
			require.Len(t, w.r.Status().Stopped, 1)
			require.False(t, w.r.Status().Stopped[0].Waits)

			w.fleet.cannot, w.fleet.before = nil, nil
			w.wish("[{name: a, state: absent}]")
			w.look()
			require.Equal(t, []string{"guest.destroy a"}, w.requests())
		})
	}
}

// What comes and goes, and is always there when the gate looks, makes no storm of requests.
func TestAnObstacleThatComesAndGoesFloodsNobody(t *testing.T) {
	w := newWorld(t, "a")
	asked := &wants{Gate: w.r.Gate}
	w.fleet.probed = 1 // the gate's look comes first, and sees it
	w.r.Gate, w.fleet.cannot, w.fleet.wavers = asked, mounted, true
	w.wish("[{name: a, state: stopped}]")
	w.hour()
	require.Less(t, asked.n, 40, "in an hour")
	require.Greater(t, asked.n, 10, "it goes on")
	require.Empty(t, w.steps())
}

// The same for what comes in the way after the gate took the step. What a look does not show stays final.
func TestAStepThatIsRefusedForWhatCameInItsWay(t *testing.T) {
	for name, seen := range map[string]bool{"a look shows it": true, "no look shows it": false} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "a")
			w.fleet.before = func(op.Step) error {
				if seen {
					w.fleet.cannot = mounted
				}
				return mounted
			}
			w.wish("[{name: a, state: absent}]")
			w.approve(w.request())
			w.work()
			w.hour()
			require.Equal(t, []string{"guest.destroy a refused"}, w.steps())

			w.fleet.before, w.fleet.cannot = nil, nil
			w.time.pass(maxDelay)
			w.look()
			if want := []string{"guest.destroy a"}; seen {
				require.Equal(t, want, w.requests(), "the wish stands, and an operator is asked anew")
			} else {
				require.Empty(t, w.requests())
				require.Len(t, w.r.Status().Stopped, 1)
				require.False(t, w.r.Status().Stopped[0].Waits)
			}
		})
	}
}
