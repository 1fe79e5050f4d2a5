package gate_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

// failing runs a job whose first step succeeds and whose last one, on slow, fails. In between, meanwhile runs. It returns
// the step that would take the first one back.
func (w *world) failing(first op.Ask, meanwhile func()) op.Step {
	w.t.Helper()
	j := w.submitAs(hub, first, ask("guest.stop", "slow"))
	if j.Steps[0].State == op.StatePending {
		w.mustApprove(w.requestOf(j, 1))
	}
	require.NoError(w.t, w.execute(j.Steps[0].ID))
	meanwhile()
	w.back.fail = func(s op.Step) error {
		if s.Target.Name == "slow" {
			return errors.New("no")
		}
		return nil
	}
	require.Error(w.t, w.execute(j.Steps[1].ID))
	w.back.fail = nil
	w.run()
	return w.job(j.ID).Steps[2]
}

// undone are steps that a failed job takes back, each with what another job or other hands could do to the target since.
var undone = map[string]struct {
	ask          op.Ask
	before       func(*op.Observed)
	other        op.Ask // by another job
	byHand       func(w *world)
	here, isBack func(op.Observed) bool // after other: it is as the other one left it; without it: the step is taken back
}{
	"set-config": {
		ask:    ask("guest.set-config", "prod", "memory", int64(600)),
		before: func(o *op.Observed) { o.Spec = op.Params{"memory": int64(512)} },
		other:  ask("guest.set-config", "prod", "memory", int64(8192)),
		byHand: func(w *world) {
			w.back.change("prod", func(o *op.Observed) { o.Spec = op.Params{"memory": int64(8192)} })
		},
		here:   func(o op.Observed) bool { return o.Spec.Int("memory") == 8192 },
		isBack: func(o op.Observed) bool { return o.Spec.Int("memory") == 512 },
	},
	"set-config, and another one gives the same": {
		ask:    ask("guest.set-config", "prod", "memory", int64(600)),
		before: func(o *op.Observed) { o.Spec = op.Params{"memory": int64(512)} },
		other:  ask("guest.set-config", "prod", "memory", int64(600)),
		here:   func(o op.Observed) bool { return o.Spec.Int("memory") == 600 },
		isBack: func(o op.Observed) bool { return o.Spec.Int("memory") == 512 },
	},
	"start": {
		ask:    ask("guest.start", "prod"),
		before: func(o *op.Observed) { o.Running = op.Stopped },
		other:  ask("guest.restart", "prod"),
		here:   func(o op.Observed) bool { return o.Running == op.Running },
		isBack: func(o op.Observed) bool { return o.Running == op.Stopped },
	},
	"stop": {
		ask:    ask("guest.stop", "prod"),
		before: func(o *op.Observed) { o.Running = op.Running },
		other:  ask("guest.stop", "prod"),
		here:   func(o op.Observed) bool { return o.Running == op.Stopped },
		isBack: func(o op.Observed) bool { return o.Running == op.Running },
	},
	"create": {
		ask:    ask("guest.create", "new"),
		before: func(*op.Observed) {},
		other:  ask("guest.set-config", "new", "memory", int64(9)),
		byHand: func(w *world) { w.back.remove("new"); w.back.put("new") },
		here:   func(o op.Observed) bool { return o.Present },
		isBack: func(o op.Observed) bool { return !o.Present },
	},
	"clone": {
		ask:    ask("guest.clone", "new", "from", "prod"),
		before: func(*op.Observed) {},
		other:  ask("guest.start", "new"),
		byHand: func(w *world) { w.back.remove("new"); w.back.put("new") },
		here:   func(o op.Observed) bool { return o.Present },
		isBack: func(o op.Observed) bool { return !o.Present },
	},
}

// TestEachUndoIsTried: each operation of the catalogue that something takes back is in undone. What brings a guest back overwrites nothing.
func TestEachUndoIsTried(t *testing.T) {
	tried := map[string]bool{}
	for _, c := range undone {
		tried[c.ask.Op] = true
	}
	for _, spec := range op.Catalogue() {
		if spec.Undo != nil && spec.Identity != op.Ends {
			require.True(t, tried[spec.Name], "%s has an undo: say in undone what others could do since", spec.Name)
		}
	}
}

// A failed job once set back what an operator had set since, and stopped a guest that an operator had started since.
func TestAnUndoLeavesWhatOthersDidSince(t *testing.T) {
	for name, c := range undone {
		on := c.ask.Target.Name
		begin := func(t *testing.T) *world {
			w := newWorld(t, "prod", "slow")
			w.back.change("prod", c.before)
			return w
		}
		left := func(t *testing.T, w *world, undo op.Step, why string) {
			require.Equal(t, op.StateSuperseded, undo.State, undo.Detail)
			require.Equal(t, refusal.Superseded, undo.Code)
			require.Contains(t, undo.Detail, "is not taken back")
			require.Contains(t, undo.Detail, why)
			require.True(t, c.here(w.back.get(on)), "%+v", w.back.get(on))
			require.False(t, w.job(undo.ID.Job).FinishedAt.IsZero())
			w.verifyLog()
		}
		t.Run(name+"/nobody", func(t *testing.T) {
			w := begin(t)
			undo := w.failing(c.ask, func() {})
			require.Equal(t, op.StateSucceeded, undo.State, undo.Detail)
			require.True(t, c.isBack(w.back.get(on)), "%+v", w.back.get(on))
		})
		t.Run(name+"/another job", func(t *testing.T) {
			w := begin(t)
			undo := w.failing(c.ask, func() { w.submitAs(neighbour, c.other); w.runAll(on) })
			left(t, w, undo, "was asked for on guest/"+on+" since")
		})
		t.Run(name+"/another job asked and waits", func(t *testing.T) {
			w := begin(t)
			undo := w.failing(c.ask, func() { w.submitAs(neighbour, c.other) })
			left(t, w, undo, "was asked for on guest/"+on+" since")
		})
		t.Run(name+"/another job was cancelled", func(t *testing.T) {
			w := begin(t)
			undo := w.failing(c.ask, func() {
				j := w.submitAs(neighbour, c.other)
				must.Get(w.gate.Cancel(w.ctx, neighbour, j.ID))(t)
			})
			require.Equal(t, op.StateSucceeded, undo.State, undo.Detail)
		})
		if c.byHand == nil {
			continue
		}
		t.Run(name+"/by hand", func(t *testing.T) {
			w := begin(t)
			left(t, w, w.failing(c.ask, func() { c.byHand(w) }), "is not")
		})
	}
}

// An older job that waited for an operator, and ran since, counts as well.
func TestAnUndoLeavesWhatAnOlderJobDidSince(t *testing.T) {
	w := newWorld(t, "prod", "slow")
	w.back.change("prod", func(o *op.Observed) { o.Spec = op.Params{"memory": int64(512), "protected": true} })
	old := w.submitAs(neighbour, ask("guest.set-config", "prod", "memory", int64(600), "protected", false))
	require.Equal(t, op.StatePending, old.Steps[0].State)
	undo := w.failing(ask("guest.set-config", "prod", "memory", int64(600)), func() {
		require.NoError(t, w.gate.Refresh(w.ctx, old.Steps[0].Target))
		w.mustApprove(w.requestOf(old, 1))
		w.runAll("prod")
	})
	require.Equal(t, op.StateSuperseded, undo.State, undo.Detail)
	require.Equal(t, int64(600), w.back.get("prod").Spec.Int("memory"))
}

// To bring a guest back overwrites nothing: it is refused if somebody has the name. So nobody can hold it up by asking for
// the name, until the trash is swept.
func TestWhatAFailedJobDestroyedComesBack(t *testing.T) {
	w := newWorld(t, "prod", "slow")
	was := w.back.get("prod").Incarnation
	undo := w.failing(ask("guest.destroy", "prod"), func() {
		j := w.submitAs(neighbour, ask("guest.create", "prod"))
		require.Equal(t, op.StatePending, j.Steps[0].State)
	})
	require.Equal(t, op.StateSucceeded, undo.State, undo.Detail)
	require.Equal(t, was, w.back.get("prod").Incarnation)

	undo = w.failing(ask("guest.destroy", "prod"), func() { w.back.put("prod") })
	require.Equal(t, op.StateRefused, undo.State)
	require.NotEqual(t, was, w.back.get("prod").Incarnation)
}

// What later steps of the same job did to other fields is theirs.
func TestAnUndoLooksAtItsOwnFields(t *testing.T) {
	w := newWorld(t, "prod", "slow")
	w.back.change("prod", func(o *op.Observed) { o.Spec = op.Params{"memory": int64(512)} })
	j := w.submitAs(hub, ask("guest.set-config", "prod", "memory", int64(600), "labels", map[string]any{"a": "1"}),
		ask("guest.set-config", "prod", "labels", map[string]any{"a": "1", "b": "2"}), ask("guest.stop", "slow"))
	w.back.fail = func(s op.Step) error {
		if s.Target.Name == "slow" {
			return errors.New("no")
		}
		return nil
	}
	w.run()
	undo := w.job(j.ID).Steps[3]
	require.Equal(t, op.StateSucceeded, undo.State, undo.Detail)
	require.Equal(t, int64(512), w.back.get("prod").Spec.Int("memory"))
}

// An operator signed that a step is taken back. What somebody only asks for does not undo that.
func TestASignedUndoIsNotHeldUpByARequest(t *testing.T) {
	w := newWorld(t, "prod", "slow")
	undo := w.failing(ask("guest.create", "new"), func() { w.back.change("new", func(o *op.Observed) { o.Content = "written" }) })
	require.Equal(t, op.StatePending, undo.State)
	require.Equal(t, op.StatePending, w.submitAs(neighbour, ask("guest.wipe", "new")).Steps[0].State)
	w.mustApprove(w.requestOf(w.job(undo.ID.Job), 3))
	w.run()
	require.False(t, w.back.has("new"))
}
