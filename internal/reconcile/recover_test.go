package reconcile

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver"
	"gated/internal/gate"
	"gated/internal/test/must"
)

// A step of another host may still be under way there, so also a benign one is not run again by itself.
func TestRecoverAfterAMoveRunsNothingAgain(t *testing.T) {
	for name, c := range map[string]struct {
		do    func(w *world)
		done  bool
		state op.State
	}{
		"create, done":         {func(w *world) { w.wish("[{name: a, state: running}]") }, true, op.StateSucceeded},
		"create, not done":     {func(w *world) { w.wish("[{name: a, state: running}]") }, false, op.StateInterrupted},
		"destroy, not done":    {destroyA, false, op.StateInterrupted},
		"set-config, not done": {setA, false, op.StateInterrupted},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.die(c.done)
			c.do(w)
			w.fleet.after = nil
			w.moved = true
			w.restart()
			require.Equal(t, c.state, w.job(1).Steps[0].State)
		})
	}
}

// die makes the daemon end right after the permit of the step was used: with
// the work done or not, and nothing recorded.
func (w *world) die(withTheWorkDone bool) {
	w.fleet.after = func(s op.Step) error {
		if withTheWorkDone {
			w.fleet.mu.Lock()
			w.fleet.carryOut(s)
			w.fleet.mu.Unlock()
		}
		w.r.Gate = cutOff{w.gate}
		return driver.Unknown(errBackend)
	}
}

// cutOff is a gate that records nothing, as for a daemon that is dead.
type cutOff struct{ Gate }

func (cutOff) Record(context.Context, op.StepID, gate.Outcome) (op.Step, error) {
	return op.Step{}, refusal.New(refusal.Unavailable, "dead")
}

func TestRecover(t *testing.T) {
	for name, c := range map[string]struct {
		do    func(w *world)
		done  bool
		state op.State
		there bool
	}{
		"create, done":         {func(w *world) { w.wish("[{name: a, state: running}]") }, true, op.StateSucceeded, true},
		"create, not done":     {func(w *world) { w.wish("[{name: a, state: running}]") }, false, op.StatePlanned, false},
		"destroy, done":        {destroyA, true, op.StateSucceeded, false},
		"destroy, not done":    {destroyA, false, op.StateInterrupted, true},
		"set-config, done":     {setA, true, op.StateSucceeded, true},
		"set-config, not done": {setA, false, op.StatePlanned, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.die(c.done)
			c.do(w)
			require.Equal(t, op.StateDispatched, w.job(1).Steps[0].State)
			w.fleet.after = nil
			w.restart()
			require.Equal(t, c.state, w.job(1).Steps[0].State)
			require.Equal(t, c.there, w.fleet.has("a"))
			before := len(w.fleet.took())
			require.Equal(t, map[bool]int{true: 1, false: 0}[c.done], before)

			// A benign step is run again, a destructive one asked for again.
			w.time.pass(maxDelay)
			w.look()
			switch c.state {
			case op.StatePlanned:
				require.Len(t, w.fleet.took(), 1)
				require.Equal(t, op.StateSucceeded, w.job(1).Steps[0].State)
			case op.StateInterrupted:
				require.Empty(t, w.fleet.took())
				require.Equal(t, []string{"guest.destroy a"}, w.requests())
			default:
				require.Empty(t, w.fleet.took())
			}
		})
	}
}

func destroyA(w *world) {
	w.fleet.make("a", running, nil)
	w.wish("[{name: a, state: absent}]")
	w.approve(w.request())
	w.work()
}

func setA(w *world) {
	w.fleet.make("a", running, nil)
	w.wish("[{name: a, memory: 1GiB}]")
}

// A create whose name somebody else took meanwhile is not taken for ours.
func TestRecoverDoesNotBelieveAName(t *testing.T) {
	w := newWorld(t)
	w.die(false)
	w.wish("[{name: a, state: running}]")
	w.fleet.after = nil
	w.fleet.make("a", running, nil)
	w.restart()
	require.Equal(t, op.StateFailed, w.job(1).Steps[0].State)
	p := must.Get(w.gate.Provenance(w.ctx, w.fleet.look("a").Incarnation))(t)
	require.Nil(t, p)
}

func TestRecoverWaitsUntilTheTargetCanBeLookedAt(t *testing.T) {
	w := newWorld(t)
	w.die(true)
	destroyA(w)
	w.fleet.after = nil
	w.fleet.blind = func(op.Target) error { return errBackend }
	w.restart()
	require.Equal(t, op.StateDispatched, w.job(1).Steps[0].State)
	w.submitBlind("a")
	w.look()
	require.Equal(t, op.StateDispatched, w.job(1).Steps[0].State)
	w.fleet.blind = nil
	w.time.pass(maxDelay)
	w.work()
	require.Equal(t, op.StateSucceeded, w.job(1).Steps[0].State)
}

// submitBlind shows that nothing can be asked of a target that nobody can see.
func (w *world) submitBlind(name string) {
	must.Err(w.gate.Submit(w.ctx, op.Submission{Requester: op.Requester{Source: op.SourceAPI, UID: 1000},
		Steps: []op.Ask{ask("guest.start", name, nil)}}))(w.t)
}

func TestRecoverOfManyAtOnce(t *testing.T) {
	w := newWorld(t)
	w.fleet.after = func(s op.Step) error {
		w.fleet.mu.Lock()
		defer w.fleet.mu.Unlock()
		w.fleet.carryOut(s)
		return driver.Unknown(errBackend)
	}
	w.r.Gate = cutOff{w.gate}
	var wishes string
	for i := range 50 {
		wishes += fmt.Sprintf("{name: g%d, state: running}, ", i)
	}
	w.wish("[" + wishes + "]")
	w.fleet.after = nil
	w.restart()
	require.Zero(t, must.Get(w.gate.Counts(w.ctx))(t)[op.StateDispatched])
	w.look()
	require.Len(t, w.fleet.took(), 50, "each was made once")
}

func TestATaskIsFollowedToItsEnd(t *testing.T) {
	for name, restart := range map[string]bool{"in one life": false, "over a restart": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.fleet.tell = func(op.Step) (string, error) { return "task-7", nil }
			w.fleet.tasks["task-7"] = driver.Progress{}
			destroyA(w)
			if restart {
				w.restart()
			}
			w.time.pass(poll)
			w.work()
			require.Equal(t, op.StateDispatched, w.job(1).Steps[0].State)
			require.Equal(t, "task-7", w.job(1).Steps[0].Task)
			w.fleet.tasks["task-7"] = driver.Progress{Done: true}
			w.time.pass(poll)
			w.work()
			require.Equal(t, op.StateSucceeded, w.job(1).Steps[0].State)
			require.NotEmpty(t, w.fleet.asked)
			require.Equal(t, []string{"guest.destroy a"}, w.fleet.took())
		})
	}
}

// H09: a task that says it is done, while the guest is there, is not believed.
func TestABackEndThatLiesIsNotBelieved(t *testing.T) {
	w := newWorld(t)
	w.fleet.after = func(op.Step) error { return nil }
	w.fleet.tell = func(op.Step) (string, error) { w.fleet.make("a", running, nil); return "", nil }
	w.wish("[{name: a, state: running}]")
	require.Equal(t, op.StateFailed, w.job(1).Steps[0].State, "what is there is not what the gate asked for")
}

func TestALostTaskIsLookedAt(t *testing.T) {
	w := newWorld(t)
	w.fleet.tell = func(op.Step) (string, error) { return "forgotten", nil }
	destroyA(w)
	w.restart()
	require.Equal(t, []string{"forgotten"}, w.fleet.asked, "it is asked for once")
	require.Equal(t, op.StateSucceeded, w.job(1).Steps[0].State)
}

// T13: an answer that is lost is not taken for either answer.
func TestALostAnswerOfADestroyIsNeverRunAgain(t *testing.T) {
	w := newWorld(t)
	w.fleet.after = func(op.Step) error { return driver.Unknown(errBackend) }
	destroyA(w)
	require.Equal(t, op.StateInterrupted, w.job(1).Steps[0].State)
	w.fleet.after = nil
	w.time.pass(time.Hour)
	w.look()
	require.Empty(t, w.fleet.took())
	require.True(t, w.fleet.has("a"))
}

func TestAPanicCostsThatCallOnly(t *testing.T) {
	boom := func(op.Step) error { panic("boom") }
	t.Run("before the permit is used", func(t *testing.T) {
		w := newWorld(t)
		w.fleet.before = boom
		destroyA(w)
		require.Equal(t, op.StateRefused, w.job(1).Steps[0].State)
		require.True(t, w.fleet.has("a"))
	})
	t.Run("after it", func(t *testing.T) {
		w := newWorld(t)
		w.fleet.after = boom
		destroyA(w)
		require.Equal(t, op.StateInterrupted, w.job(1).Steps[0].State)
	})
	t.Run("after the work", func(t *testing.T) {
		w := newWorld(t)
		w.fleet.tell = func(op.Step) (string, error) { panic("boom") }
		destroyA(w)
		require.Equal(t, op.StateSucceeded, w.job(1).Steps[0].State, "the target shows that it was done")
	})
	t.Run("as it looks", func(t *testing.T) {
		w := newWorld(t)
		w.fleet.make("b", stopped, nil)
		w.wish("[{name: b, state: stopped}]")
		w.fleet.blind = func(op.Target) error { panic("boom") }
		w.wish("[{name: b, state: running}]")
		require.Empty(t, w.fleet.took())
		require.Len(t, w.r.Status().Unknown, 1)
	})
}

// What the journal cannot take now is kept, and nothing else of the target
// runs until it is written.
func TestAnEndThatCannotBeWrittenIsWrittenLater(t *testing.T) {
	w := newWorld(t)
	w.r.Gate = cutOff{w.gate}
	destroyA(w)
	require.Equal(t, []string{"guest.destroy a"}, w.fleet.took())
	require.Equal(t, op.StateDispatched, w.job(1).Steps[0].State)
	w.submit(ask("guest.create", "a", nil))
	w.work()
	require.Empty(t, w.fleet.took())
	w.r.Gate = w.gate
	w.time.pass(maxDelay)
	w.work()
	require.Equal(t, op.StateSucceeded, w.job(1).Steps[0].State)
	require.Equal(t, []string{"guest.create a"}, w.fleet.took())
}

// A journal that cannot be read when a step failed: it may be dispatched, so
// that it counts as that until the journal says otherwise.
func TestAnErrorWhileTheJournalCannotBeRead(t *testing.T) {
	for name, used := range map[string]bool{"used": true, "not used": false} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			fail := func(op.Step) error { w.r.Gate = unreadable{w.gate}; return errBackend }
			if used {
				w.fleet.after = fail
			} else {
				w.fleet.before = fail
			}
			w.fleet.make("a", running, nil)
			w.submit(ask("guest.stop", "a", nil))
			w.work()
			w.fleet.before, w.fleet.after = nil, nil
			w.r.Gate = w.gate
			w.time.pass(maxDelay)
			w.work()
			if used {
				require.Equal(t, op.StateFailed, w.job(1).Steps[0].State)
				require.Empty(t, w.fleet.took())
			} else {
				require.Equal(t, op.StateSucceeded, w.job(1).Steps[0].State)
			}
		})
	}
}

type unreadable struct{ Gate }

func (unreadable) Job(context.Context, op.JobID) (op.Job, error) {
	return op.Job{}, refusal.New(refusal.Unavailable, "the disk is gone")
}

func TestRecoverReportsAJournalThatCannotBeRead(t *testing.T) {
	w := newWorld(t)
	w.r.Gate = noDispatched{w.gate}
	require.ErrorIs(t, w.r.Recover(w.ctx), errBackend)
}

type noDispatched struct{ Gate }

func (noDispatched) Dispatched(context.Context) ([]op.Step, error) { return nil, errBackend }

func TestAStepThatItsDriverRefusesIsRefused(t *testing.T) {
	w := newWorld(t)
	w.fleet.before = func(op.Step) error { return refusal.New(refusal.Conflict, "a mount is below it") }
	destroyA(w)
	s := w.job(1).Steps[0]
	require.Equal(t, op.StateRefused, s.State)
	require.Equal(t, refusal.Conflict, s.Code)
	require.Equal(t, refusal.Conflict, w.r.Status().Stopped[0].Code)

	w.fleet.make("b", running, nil)
	w.fleet.before = func(op.Step) error { return refusal.New(refusal.Unavailable, "the back end is away") }
	w.submit(ask("guest.stop", "b", nil))
	w.work()
	require.Equal(t, op.StatePlanned, w.job(2).Steps[0].State, "what may go away is waited for")
	w.fleet.before = nil
	w.time.pass(firstDelay)
	w.work()
	require.Equal(t, op.StateSucceeded, w.job(2).Steps[0].State)
}

func TestAStepThatTakesTooLongIsUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.fleet.hang = true
		destroyA(w)
		require.Equal(t, op.StateInterrupted, w.job(1).Steps[0].State)
		require.True(t, w.fleet.has("a"))
	})
}
