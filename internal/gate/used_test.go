package gate_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/gate"
	"gated/internal/test/must"
)

// A job of one agent makes "shared" and fails later. Between the two, others use it.
// A guest with their bytes is not destroyed unsigned.
func TestAFailedJobTakesBackNothingThatOthersUse(t *testing.T) {
	set := func(name string) op.Ask { return ask("guest.set-config", name, "memory", int64(7)) }
	hands := map[string]bool{"other hands write into it": true, "it cannot be told": true}
	for name, meanwhile := range map[string]func(w *world){
		"another agent configures it": func(w *world) { w.submitAs(neighbour, set("shared")); w.runAll("shared") },
		"another agent starts it":     func(w *world) { w.submitAs(neighbour, ask("guest.start", "shared")); w.runAll("shared") },
		"its agent starts it": func(w *world) {
			w.submitAs(builder, ask("guest.start", "shared"), ask("guest.stop", "shared"))
			w.runAll("shared")
		},
		"another job of its agent": func(w *world) { w.submitAs(builder, set("shared")); w.runAll("shared") },
		"a desired set": func(w *world) {
			must.Get(w.gate.Want(w.ctx, "fleet", set("shared")))(w.t)
			w.runAll("shared")
		},
		"other hands write into it": func(w *world) { w.back.change("shared", func(o *op.Observed) { o.Content = "written" }) },
		"it cannot be told":         func(w *world) { w.back.change("shared", func(o *op.Observed) { o.Content = "" }) },
	} {
		for _, scratch := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				w := newWorld(t, "slow")
				j := w.submitAs(builder, ask("guest.create", "shared", "scratch", scratch), ask("guest.stop", "slow"))
				require.NoError(t, w.execute(j.Steps[0].ID))
				meanwhile(w)
				w.back.fail = func(s op.Step) error {
					if s.Target.Name == "slow" {
						return errors.New("no")
					}
					return nil
				}
				w.run()
				undo := w.job(j.ID).Steps[2]
				require.Equal(t, "guest.destroy", undo.Op)
				require.True(t, w.back.has("shared"))
				if !hands[name] {
					require.Equal(t, op.StateSuperseded, undo.State, "what others ask for by the gate is left, and nobody is asked")
					return
				}
				require.Equal(t, op.StatePending, undo.State, undo.Verdict)
				require.Contains(t, undo.Verdict.Why, "its job may not take it back unsigned")
			})
		}
	}
}

// TestAFailedJobTakesBackWhatOnlyItTouched: the opposite, so that the test above
// says something.
func TestAFailedJobTakesBackWhatOnlyItTouched(t *testing.T) {
	w := newWorld(t, "slow")
	j := w.submitAs(builder, ask("guest.create", "shared"), ask("guest.set-config", "shared", "memory", int64(7)), ask("guest.stop", "slow"))
	w.back.fail = func(s op.Step) error {
		if s.Target.Name == "slow" {
			return errors.New("no")
		}
		return nil
	}
	w.run()
	require.False(t, w.back.has("shared"))
	require.Len(t, w.job(j.ID).Steps, 4)
}

// TestAStepByAnotherEndsScratch: the creator needs a signature from then on.
func TestAStepByAnotherEndsScratch(t *testing.T) {
	for name, by := range map[string]op.Requester{"another agent": neighbour, "its bare uid": {Source: op.SourceAPI, UID: builder.UID},
		"another process of its name": {Source: op.SourceAPI, UID: builder.UID, Agent: "builder2"}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			o := w.scratch("tmp")
			w.submitAs(by, ask("guest.start", "tmp"))
			w.run()
			w.waits("tmp", builder)
			p := must.Get(w.gate.Provenance(w.ctx, o.Incarnation))(t)
			require.Contains(t, p.ScratchEnded, by.String()+" used it")
		})
	}
}

// TestItsOwnStepsKeepScratch: an agent works in its own scratch, and destroys it.
func TestItsOwnStepsKeepScratch(t *testing.T) {
	w := newWorld(t)
	w.scratch("tmp")
	w.submitAs(builder, ask("guest.start", "tmp"), ask("guest.set-config", "tmp", "memory", int64(9)), ask("guest.stop", "tmp"))
	w.run()
	w.back.change("tmp", func(o *op.Observed) { o.Content = "written" })
	j := w.submitAs(builder, ask("guest.destroy", "tmp"))
	w.run()
	require.Equal(t, op.StateSucceeded, w.job(j.ID).State())
	require.False(t, w.back.has("tmp"))
}

// TestACompensationThatWaitsHoldsUpNoOther: a compensation that waits for an
// operator does not delay the others of a failed job.
func TestACompensationThatWaitsHoldsUpNoOther(t *testing.T) {
	w := newWorld(t, "slow")
	j := w.submitAs(builder, ask("guest.create", "one"), ask("guest.create", "two"), ask("guest.stop", "slow"))
	require.NoError(t, w.execute(j.Steps[0].ID))
	require.NoError(t, w.execute(j.Steps[1].ID))
	w.back.change("two", func(o *op.Observed) { o.Content = "written" })
	w.back.fail = func(s op.Step) error {
		if s.Target.Name == "slow" {
			return errors.New("no")
		}
		return nil
	}
	w.run()
	require.True(t, w.back.has("two"))
	require.False(t, w.back.has("one"))
	require.Equal(t, op.StatePending, w.job(j.ID).Steps[3].State)
}

// TestABackEndThatLies: a back end reports success, and the look contradicts it.
// Such steps were once recorded as succeeded.
func TestABackEndThatLiesOfWhatItLeft(t *testing.T) {
	with := func(o *op.Observed) {
		o.Snapshots, o.Backups, o.Disks = []string{"s"}, []string{"b"}, []op.Disk{{Name: "vda", Size: 2 << 20, ID: "disk:1"}}
		o.Spec = op.Params{"memory": int64(1), "command": "", "labels": map[string]any{"tier": "test", "hold": ""}}
	}
	for name, a := range map[string]op.Ask{
		"snapshot":        ask("guest.snapshot", "a", "snapshot", "new"),
		"snapshot-delete": ask("guest.snapshot-delete", "a", "snapshot", "s"),
		"disk-create":     ask("guest.disk-create", "a", "disk", "vdb", "size", int64(1)),
		"disk-resize":     ask("guest.disk-resize", "a", "disk", "vda", "size", int64(4)),
		"disk-delete":     ask("guest.disk-delete", "a", "disk", "vda"),
		"disk-detach":     ask("guest.disk-detach", "a", "disk", "vda"),
		"backup-delete":   ask("guest.backup-delete", "a", "backup", "b"),
		"set-config":      ask("guest.set-config", "a", "memory", int64(9)),
		"protected":       ask("guest.set-config", "a", "protected", true),
		"labels":          ask("guest.set-config", "a", "labels", map[string]any{"tier": "prod"}),
		"label removed":   ask("guest.set-config", "a", "labels", map[string]any{"tier": "test"}),
		"all labels":      ask("guest.set-config", "a", "labels", map[string]any{}),
		"backup":          ask("guest.backup", "a"),
		"backup, pruning": ask("guest.backup", "a", "rotate", true),
		"stop":            ask("guest.stop", "a"),
		"destroy":         ask("guest.destroy", "a"),
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "a")
			w.back.change("a", with)
			w.back.change("a", func(o *op.Observed) { o.Running = "running" })
			j := w.mustSubmit(a)
			if s := j.Steps[0]; s.State == op.StatePending {
				r := must.Get(w.gate.Request(w.ctx, s.ID))(t)
				must.Get(w.approve(r))(t)
			}
			w.use(j.Steps[0].ID)
			after := w.back.get("a") // it did nothing
			s := must.Get(w.gate.Record(w.ctx, j.Steps[0].ID, gate.Outcome{After: &after}))(t)
			require.Equal(t, op.StateFailed, s.State, s.Detail)
			require.Contains(t, s.Detail, "the back end says that it is done, but")
		})
	}
}

// TestABackupIsOneMore: a backup was made if a look shows one that the look at the
// dispatch did not show. If one of the looks could not list them, it is not known.
func TestABackupIsOneMore(t *testing.T) {
	for name, c := range map[string]struct {
		before, after []string
		want          op.State
	}{
		"one more":            {[]string{"b"}, []string{"b", "c"}, op.StateSucceeded},
		"the first":           {[]string{}, []string{"c"}, op.StateSucceeded},
		"pruned meanwhile":    {[]string{"a", "b"}, []string{"c"}, op.StateSucceeded},
		"none":                {[]string{}, []string{}, op.StateFailed},
		"one less":            {[]string{"a", "b"}, []string{"b"}, op.StateFailed},
		"not listed after it": {[]string{"b"}, nil, op.StateInterrupted},
		"not listed before":   {nil, []string{"b"}, op.StateInterrupted},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "a")
			w.back.change("a", func(o *op.Observed) { o.Backups = c.before })
			j := w.mustSubmit(ask("guest.backup", "a"))
			w.use(j.Steps[0].ID)
			require.Equal(t, c.before, w.job(j.ID).Steps[0].Before)
			w.back.change("a", func(o *op.Observed) { o.Backups = c.after })
			after := w.back.get("a")
			s := must.Get(w.gate.Record(w.ctx, j.Steps[0].ID, gate.Outcome{After: &after}))(t)
			require.Equal(t, c.want, s.State, s.Detail)
		})
	}
}

// runAll executes all steps that may run on one target, as reconcile would.
func (w *world) runAll(name string) {
	w.t.Helper()
	for range 10 {
		id, ok := must.Two(w.gate.Runnable(w.ctx, op.Target{Kind: "guest", Name: name}))(w.t)
		if !ok {
			return
		}
		require.NoError(w.t, w.execute(id))
	}
	w.t.Fatal("steps go on for ever")
}

// TestCanGo: people see that a target can go unsigned, by which requester and until
// when.
func TestCanGo(t *testing.T) {
	w := newWorld(t)
	facts := func(name string) []op.Fact { return must.Get(w.gate.CanGo(w.ctx, w.back.get(name)))(t) }
	w.scratch("tmp")
	require.Len(t, facts("tmp"), 1)
	require.Contains(t, facts("tmp")[0].Text, "agent builder may destroy it unsigned")
	_, shown := must.Two(w.gate.Explain(w.ctx, hub, ask("guest.destroy", "tmp")))(t)
	require.Contains(t, shown, facts("tmp")[0])
	w.submitAs(neighbour, ask("guest.start", "tmp"))
	w.run()
	require.Empty(t, facts("tmp"))

	w.back.put("slow")
	j := w.submitAs(builder, ask("guest.create", "shared"), ask("guest.stop", "slow"))
	require.NoError(t, w.execute(j.Steps[0].ID))
	require.Len(t, facts("shared"), 1)
	require.Contains(t, facts("shared")[0].Text, "job "+j.ID.String()+" takes it back unsigned if it fails")
	until := w.back.get("shared")
	until.Content = "written"
	require.Empty(t, must.Get(w.gate.CanGo(w.ctx, until))(t))
	w.run()
	require.Empty(t, facts("shared"), "its job has ended")
	require.Empty(t, facts("slow"), "made by other hands")
}
