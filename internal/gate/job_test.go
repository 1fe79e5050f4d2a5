package gate_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/gate"
	"gated/internal/nonce"
	"gated/internal/people/policy"
	"gated/internal/test/must"
)

// states returns the states of a job's steps in order.
func (w *world) states(id op.JobID) (out []op.State) {
	for _, s := range w.job(id).Steps {
		out = append(out, s.State)
	}
	return out
}

// requestOf returns the request of a job's step.
func (w *world) requestOf(j op.Job, index int) op.Request {
	w.t.Helper()
	return must.Get(w.gate.Request(w.ctx, op.StepID{Job: j.ID, Index: index}))(w.t)
}

func (w *world) mustApprove(r op.Request) {
	w.t.Helper()
	must.Get(w.approve(r))(w.t)
}

func (w *world) mustReject(r op.Request) {
	w.t.Helper()
	must.Get(w.gate.Reject(w.ctx, hub, r.ID, w.rejection(r, alice)))(w.t)
}

// use dispatches a step and does not end it.
func (w *world) use(id op.StepID) {
	w.t.Helper()
	p := must.Get(w.gate.Permit(w.ctx, id))(w.t)
	now := must.Get(w.back.Observe(w.ctx, p.Step().Look()))(w.t)
	require.NoError(w.t, p.Use(w.ctx, now))
}

// fate returns the fate of a request's nonce.
func (w *world) fate(n string) nonce.Fate {
	w.t.Helper()
	rec, ok := w.nonceOf(n)
	require.True(w.t, ok)
	return rec.Fate
}

// TestNothingStartsBeforeAllIsAuthorized is P15.
func TestNothingStartsBeforeAllIsAuthorized(t *testing.T) {
	w := newWorld(t, "a", "b")
	j := w.mustSubmit(ask("guest.create", "new"), ask("guest.destroy", "a"), ask("guest.start", "b"), ask("guest.destroy", "b"))
	require.Equal(t, []op.State{op.StatePlanned, op.StatePending, op.StatePlanned, op.StatePending}, w.states(j.ID))
	w.run()
	require.Empty(t, w.back.did())
	w.mustApprove(w.requestOf(j, 4))
	w.run()
	require.Empty(t, w.back.did(), "one of two is authorized")
	for i := 1; i <= 4; i++ {
		must.Fail(w.gate.Permit(w.ctx, op.StepID{Job: j.ID, Index: i}))(t, refusal.Conflict, "step %d", i)
	}
	w.Pass(7 * time.Hour)
	w.mustApprove(w.requestOf(j, 2))
	for i := 2; i <= 4; i++ {
		_, err := w.gate.Permit(w.ctx, op.StepID{Job: j.ID, Index: i})
		require.ErrorIs(t, err, refusal.Conflict, "step %d goes after the first", i)
	}
	w.run()
	require.Equal(t, []string{"guest.create new", "guest.destroy a", "guest.start b", "guest.destroy b"}, w.back.did())
	require.Equal(t, op.StateSucceeded, w.job(j.ID).State())
	require.False(t, w.job(j.ID).FinishedAt.IsZero())
	w.verifyLog()
}

// TestRejectionInEachPosition rejects one of three destructive steps while
// nothing ran.
func TestRejectionInEachPosition(t *testing.T) {
	w := newWorld(t)
	for i := 1; i <= 3; i++ {
		for _, authorizedFirst := range []bool{false, true} {
			for _, n := range []string{"a", "b", "c"} {
				w.back.put(n)
			}
			w.back.done = nil
			j := w.mustSubmit(ask("guest.destroy", "a"), ask("guest.destroy", "b"), ask("guest.destroy", "c"))
			if authorizedFirst {
				w.mustApprove(w.requestOf(j, i))
				w.mustApprove(w.requestOf(j, i%3+1)) // another one of the three
			}
			w.mustReject(w.requestOf(j, i))
			for k, s := range w.states(j.ID) {
				want := op.StateCancelled
				if k+1 == i {
					want = op.StateRejected
				}
				require.Equal(t, want, s, "step %d", k+1)
				r := w.requestOf(j, k+1)
				require.NotEqual(t, nonce.Unspent, w.fate(r.Nonce))
				must.Err(w.approve(r))(t)
			}
			w.run()
			require.Empty(t, w.back.did())
			require.False(t, w.job(j.ID).FinishedAt.IsZero())
		}
	}
	w.verifyLog()
}

// TestFailureInEachPosition lets one of four steps fail. The steps before it are
// taken back, last first, and the steps after it do not run.
func TestFailureInEachPosition(t *testing.T) {
	w := newWorld(t)
	steps := []op.Ask{ask("guest.create", "new"), ask("guest.destroy", "a"), ask("guest.start", "b"), ask("guest.set-config", "c", "memory", int64(9))}
	undo := []string{"guest.destroy new", "guest.undelete a", "guest.stop b", "guest.set-config c"}
	for failing := range steps {
		w.Pass(time.Second) // what the job before did is not what others did since
		for _, n := range []string{"a", "b", "c"} {
			w.back.put(n)
		}
		w.back.change("c", func(o *op.Observed) { o.Spec = op.Params{"memory": int64(5)} })
		w.back.remove("new")
		was := map[string]op.Incarnation{"a": w.back.get("a").Incarnation, "b": w.back.get("b").Incarnation}
		w.back.done = nil
		w.back.fail = func(s op.Step) error {
			if s.Undoes == 0 && s.ID.Index == failing+1 {
				return errors.New("disk on fire")
			}
			return nil
		}
		j := w.mustSubmit(steps...)
		w.mustApprove(w.requestOf(j, 2))
		w.run()
		var want []string
		for i := range failing {
			want = append(want, steps[i].Op+" "+steps[i].Target.Name)
		}
		for i := failing - 1; i >= 0; i-- {
			want = append(want, undo[i])
		}
		require.Equal(t, want, w.back.did(), "step %d fails", failing+1)
		require.False(t, w.back.has("new"))
		require.Equal(t, was["a"], w.back.get("a").Incarnation, "the same one is back")
		require.Equal(t, "stopped", w.back.get("b").Running)
		require.Equal(t, int64(5), w.back.get("c").Spec.Int("memory"))
		job := w.job(j.ID)
		require.Equal(t, op.StateFailed, job.State())
		require.False(t, job.FinishedAt.IsZero())
		for _, s := range job.Steps[failing+1 : 4] {
			require.Equal(t, op.StateCancelled, s.State)
		}
	}
	w.verifyLog()
}

// TestRejectionWhileAnEarlierStepRuns: a job ends while a step runs. That step is
// taken back after its end is known, not before.
func TestRejectionWhileAnEarlierStepRuns(t *testing.T) {
	for name, c := range map[string]struct {
		out  func(*world) gate.Outcome
		want []op.State // create, start a, destroy b, then what is added
	}{
		"it succeeds": {func(w *world) gate.Outcome {
			w.back.change("a", func(o *op.Observed) { o.Running = "running" })
			a := w.back.get("a")
			return gate.Outcome{After: &a}
		}, []op.State{op.StateSucceeded, op.StateSucceeded, op.StateRejected, op.StateSucceeded, op.StateSucceeded}},
		"it fails": {func(*world) gate.Outcome { return gate.Outcome{Err: errors.New("no")} },
			[]op.State{op.StateSucceeded, op.StateFailed, op.StateRejected, op.StateSucceeded}},
		"it may be tried again": {func(*world) gate.Outcome { return gate.Outcome{Err: errors.New("busy"), Transient: true} },
			[]op.State{op.StateSucceeded, op.StateFailed, op.StateRejected, op.StateSucceeded}},
		"not known": {func(*world) gate.Outcome { return gate.Outcome{Unknown: true} },
			[]op.State{op.StateSucceeded, op.StateInterrupted, op.StateRejected, op.StateSucceeded}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "a", "b")
			j := w.mustSubmit(ask("guest.create", "new"), ask("guest.start", "a"), ask("guest.destroy", "b"))
			r := w.requestOf(j, 3)
			w.mustApprove(r)
			require.NoError(t, w.execute(op.StepID{Job: j.ID, Index: 1}))
			second := op.StepID{Job: j.ID, Index: 2}
			w.use(second)
			w.mustReject(r)
			require.Len(t, w.states(j.ID), 3, "nothing is taken back while a step runs")
			w.run()
			require.True(t, w.back.has("new"))
			must.Get(w.gate.Record(w.ctx, second, c.out(w)))(t)
			w.run()
			require.Equal(t, c.want, w.states(j.ID))
			require.False(t, w.back.has("new"))
			require.Equal(t, "stopped", w.back.get("a").Running)
			require.True(t, w.back.has("b"))
			steps := w.job(j.ID).Steps
			if len(steps) == 5 {
				require.Equal(t, 2, steps[3].Undoes, "the last one first")
			}
			require.False(t, w.job(j.ID).FinishedAt.IsZero())
			w.verifyLog()
		})
	}
}

func TestBenignStepThatBecomesDestructiveAsks(t *testing.T) {
	w := newWorld(t, "a")
	j := w.mustSubmit(ask("guest.create", "new"), ask("guest.stop", "a"))
	require.NoError(t, w.execute(op.StepID{Job: j.ID, Index: 1}))
	w.back.change("a", func(o *op.Observed) { o.Running, o.Volatile = "running", true })
	second := op.StepID{Job: j.ID, Index: 2}
	require.ErrorIs(t, w.execute(second), refusal.PendingSignature)
	require.Equal(t, op.StatePending, w.job(j.ID).State())
	require.Equal(t, "running", w.back.get("a").Running)
	w.run()
	require.Equal(t, []string{"guest.create new"}, w.back.did())

	// People take time to sign. In the meantime another person works in the new
	// guest.
	w.mustReject(w.requestOf(j, 2))
	w.run()
	require.True(t, w.back.has("new"), "what was made before the question is not destroyed unsigned")
	undo := w.job(j.ID).Steps[2]
	require.Equal(t, op.StatePending, undo.State)
	require.Equal(t, op.Destructive, undo.Verdict.Class)
	r := w.requestOf(j, 3)
	w.mustApprove(r)
	w.run()
	require.False(t, w.back.has("new"), "signed, it is")
	w.verifyLog()
}

func TestApprovedAfterItBecameDestructive(t *testing.T) {
	w := newWorld(t, "a")
	j := w.mustSubmit(ask("guest.stop", "a"))
	w.back.change("a", func(o *op.Observed) { o.Running, o.Volatile = "running", true })
	require.ErrorIs(t, w.execute(j.Steps[0].ID), refusal.PendingSignature)
	w.mustApprove(w.requestOf(j, 1))
	w.run()
	require.Equal(t, "stopped", w.back.get("a").Running)
	require.Equal(t, []string{"guest.stop a"}, w.back.did())
}

func TestCompensationThatIsTooOldAsks(t *testing.T) {
	w := newWorld(t, "a")
	j := w.mustSubmit(ask("guest.create", "new"), ask("guest.start", "a"))
	require.NoError(t, w.execute(op.StepID{Job: j.ID, Index: 1}))
	w.Pass(policy.ScratchMaxAge)
	w.back.fail = func(op.Step) error { return errors.New("no") }
	require.Error(t, w.execute(op.StepID{Job: j.ID, Index: 2}))
	w.back.fail = nil
	w.run()
	require.True(t, w.back.has("new"))
	require.Equal(t, op.StatePending, w.job(j.ID).Steps[2].State)
	w.mustReject(w.requestOf(j, 3))
	w.run()
	require.True(t, w.back.has("new"))
	require.Equal(t, op.StateFailed, w.job(j.ID).State())
}

// TestNoSignatureForWhatAnEarlierStepChanges: the payload could not name the state
// that the step would find.
func TestNoSignatureForWhatAnEarlierStepChanges(t *testing.T) {
	w := newWorld(t, "a")
	for name, asks := range map[string][]op.Ask{
		"create, destroy":   {ask("guest.create", "x"), ask("guest.destroy", "x")},
		"create, wipe":      {ask("guest.create", "x"), ask("guest.wipe", "x")},
		"snapshot, destroy": {ask("guest.snapshot", "a", "snapshot", "s"), ask("guest.destroy", "a")},
		"config, destroy":   {ask("guest.set-config", "a", "memory", int64(1)), ask("guest.destroy", "a")},
		"destroy, destroy":  {ask("guest.destroy", "a"), ask("guest.destroy", "a")},
		"destroy, create":   {ask("guest.destroy", "a"), ask("guest.create", "a")},
		"create, create":    {ask("guest.create", "x"), ask("guest.create", "a")},
	} {
		must.Fail(w.submit(asks...))(t, refusal.Conflict, name)
	}
	j, err := w.submit(ask("guest.start", "a"), ask("guest.stop", "a"), ask("guest.destroy", "a"))
	require.NoError(t, err, "running or not is no part of the signed state")
	w.mustApprove(w.requestOf(j, 3))
	w.run()
	require.False(t, w.back.has("a"))
}

func TestStepOnWhatTheJobMakesRunsOnlyOnThat(t *testing.T) {
	w := newWorld(t)
	j := w.mustSubmit(ask("guest.create", "new"), ask("guest.start", "new"))
	require.NoError(t, w.execute(op.StepID{Job: j.ID, Index: 1}))
	w.back.remove("new")
	w.back.put("new")
	require.ErrorIs(t, w.execute(op.StepID{Job: j.ID, Index: 2}), refusal.StaleTarget)
	w.run()
	require.True(t, w.back.has("new"), "the compensation does not touch another one under the name")
	require.Equal(t, []op.State{op.StateSucceeded, op.StateRefused, op.StateSuperseded}, w.states(j.ID))

	j = w.mustSubmit(ask("guest.create", "other"), ask("guest.start", "other"))
	w.run()
	require.Equal(t, op.StateSucceeded, w.job(j.ID).State())
	require.Equal(t, "running", w.back.get("other").Running)
}

func TestSizesOfAJob(t *testing.T) {
	w := newWorld(t)
	asks := func(n int) (out []op.Ask) {
		for range n {
			out = append(out, ask("guest.start", "a"))
		}
		return out
	}
	w.back.put("a")
	must.Fail(w.submit())(t, refusal.BadParams)
	must.Fail(w.submit(asks(op.MaxSteps+1)...))(t, refusal.TooComplex)
	j := must.Get(w.submit(asks(op.MaxSteps)...))(t)
	require.Len(t, j.Steps, op.MaxSteps)

	reason := make([]byte, op.MaxReason+1)
	for i := range reason {
		reason[i] = 'x'
	}
	sub := op.Submission{Requester: hub, Steps: []op.Ask{ask("guest.destroy", "a")}, Reason: string(reason)}
	must.Fail(w.gate.Submit(w.ctx, sub))(t, refusal.BadParams)
	sub.Reason = sub.Reason[1:]
	j = must.Get(w.gate.Submit(w.ctx, sub))(t)
	require.Equal(t, sub.Reason, must.Get(op.DecodePayload(w.requestOf(j, 1).Payload))(t).Reason)
	sub.Reason = "\u202e"
	must.Fail(w.gate.Submit(w.ctx, sub))(t, refusal.Malformed)
	sub.Reason, sub.IdempotencyKey = "", string(reason[:256])
	must.Fail(w.gate.Submit(w.ctx, sub))(t, refusal.BadParams)
	sub.IdempotencyKey = sub.IdempotencyKey[1:]
	must.Get(w.gate.Submit(w.ctx, sub))(t)
}

func TestWhatAJobCannotSay(t *testing.T) { // P01, P08, P13
	w := newWorld(t, "a")
	for name, c := range map[string]struct {
		ask  op.Ask
		want refusal.Code
	}{
		"unknown op":     {ask("guest.frobnicate", "a"), refusal.UnknownOp},
		"other case":     {ask("guest.Destroy", "a"), refusal.UnknownOp},
		"unknown param":  {ask("guest.destroy", "a", "force", true), refusal.BadParams},
		"class":          {ask("guest.destroy", "a", "class", "benign"), refusal.BadParams},
		"scratch":        {ask("guest.destroy", "a", "scratch", true), refusal.BadParams},
		"provenance":     {ask("guest.set-config", "a", "provenance", "gate"), refusal.BadParams},
		"scratch later":  {ask("guest.set-config", "a", "scratch", true), refusal.BadParams},
		"environment":    {ask("guest.create", "x", "environment", "A=1"), refusal.NotAllowed},
		"user":           {ask("guest.create", "x", "user", "root"), refusal.NotAllowed},
		"mounts":         {ask("guest.set-config", "a", "mounts", "/"), refusal.NotAllowed},
		"a path":         {ask("guest.create", "x", "path", "/etc"), refusal.NotAllowed},
		"other command":  {ask("guest.create", "x", "command", "sh"), refusal.NotAllowed},
		"name with dots": {ask("guest.destroy", ".."), refusal.Malformed},
		"wildcard":       {ask("guest.destroy", "*"), refusal.Malformed},
		"other kind":     {op.Ask{Op: "guest.destroy", Target: op.Target{Kind: "gate", Name: "self"}}, refusal.BadParams},
		"nothing there":  {ask("guest.destroy", "nobody"), refusal.UnknownTarget},
		"taken":          {ask("guest.create", "a"), refusal.Conflict},
		"empty trash":    {ask("guest.undelete", "x"), refusal.UnknownTarget},
	} {
		must.Fail(w.submit(c.ask))(t, c.want, name)
		must.Fail(w.gate.Want(w.ctx, "fleet", c.ask))(t, c.want, name)
		must.Fail(w.submit(ask("guest.start", "a"), c.ask))(t, c.want, "%s as a second step", name)
	}
	_, err := w.gate.Want(w.ctx, "fleet", ask("guest.create", "x", "scratch", true))
	require.ErrorIs(t, err, refusal.BadParams, "desired state does not make scratch")
	require.Empty(t, must.Get(w.gate.Jobs(w.ctx, gate.JobFilter{}))(t))
}
