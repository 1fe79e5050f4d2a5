package gate_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/gate"
	"gated/internal/test/must"
)

// fleet is one random run over guests of its own, in a world that all runs
// share.
type fleet struct {
	*world
	rt     *rapid.T
	names  []string
	before map[string]op.Observed
	jobs   []op.JobID
}

func (f *fleet) name(label string) string { return rapid.SampledFrom(f.names).Draw(f.rt, label) }

// step draws one step on some guest of the fleet.
func (f *fleet) step() op.Ask {
	n := f.name("guest")
	return rapid.SampledFrom([]op.Ask{
		ask("guest.create", n), ask("guest.create", n, "scratch", true), ask("guest.create", n, "protected", true),
		ask("guest.destroy", n), ask("guest.destroy", n), ask("guest.start", n), ask("guest.stop", n), ask("guest.wipe", n),
		ask("guest.undelete", n), ask("guest.snapshot", n, "snapshot", "s"),
		ask("guest.set-config", n, "memory", int64(7)), ask("guest.set-config", n, "protected", true),
		ask("guest.set-config", n, "protected", false),
	}).Draw(f.rt, "step")
}

// submitJob submits a job. Many jobs do not fit the guests, which is fine.
func (f *fleet) submitJob() {
	var asks []op.Ask
	for range rapid.IntRange(1, 5).Draw(f.rt, "steps") {
		asks = append(asks, f.step())
	}
	by := rapid.SampledFrom([]op.Requester{hub, {Source: op.SourceAPI, UID: 1000, Agent: "builder"},
		{Source: op.SourceAPI, UID: 1000, Agent: "other"}}).Draw(f.rt, "by")
	j, err := f.gate.Submit(f.ctx, op.Submission{Requester: by, Steps: asks})
	if err == nil {
		f.jobs = append(f.jobs, j.ID)
	}
}

// answer approves, rejects or leaves one waiting request.
func (f *fleet) answer() {
	for _, r := range f.waiting() {
		switch rapid.IntRange(0, 3).Draw(f.rt, "answer") {
		case 0, 1:
			// The rejection of another step of its job may have cancelled it.
			if _, err := f.approve(r); err != nil && !errors.Is(err, refusal.StaleTarget) && !errors.Is(err, refusal.Cancelled) &&
				!errors.Is(err, refusal.Expired) {
				f.rt.Fatal(err)
			}
		case 2:
			f.reject(r)
		}
	}
}

func (f *fleet) reject(r op.Request) {
	_, err := f.gate.Reject(f.ctx, hub, r.ID, f.rejection(r, alice))
	if err != nil && (!errors.Is(err, refusal.Conflict) || f.job(r.ID.Job).Steps[r.ID.Index-1].State.Open()) {
		f.rt.Fatal(err)
	}
}

func (f *fleet) waiting() []op.Request {
	rs, err := f.gate.Requests(f.ctx, op.StatePending)
	if err != nil {
		f.rt.Fatal(err)
	}
	return rs
}

// work runs what may run, each step with a chance to fail.
func (f *fleet) work() {
	for range rapid.IntRange(0, 6).Draw(f.rt, "rounds") {
		for _, n := range f.names {
			id, ok, err := f.gate.Runnable(f.ctx, op.Target{Kind: "guest", Name: n})
			if err != nil {
				f.rt.Fatal(err)
			}
			if ok {
				f.executeStep(id)
			}
		}
	}
}

func (f *fleet) executeStep(id op.StepID) {
	p, err := f.gate.Permit(f.ctx, id)
	if err != nil {
		f.rt.Fatal(err)
	}
	broken := rapid.IntRange(0, 4).Draw(f.rt, "breaks") == 0
	f.back.fail = func(op.Step) error {
		if broken {
			return errors.New("broken")
		}
		return nil
	}
	used, err := f.back.execute(f.ctx, p)
	if !used {
		// As reconcile does, refuse each step that still waits to run.
		if _, err := f.gate.Refuse(f.ctx, id, err); err != nil {
			f.rt.Fatal(err)
		}
		return
	}
	after, _ := f.back.Observe(f.ctx, p.Step().Look())
	out := gate.Outcome{Err: err, After: &after, Transient: err != nil && rapid.Bool().Draw(f.rt, "transient")}
	if rapid.IntRange(0, 9).Draw(f.rt, "lost") == 0 {
		out = gate.Outcome{Unknown: true}
	}
	if _, err := f.gate.Record(f.ctx, id, out); err != nil {
		f.rt.Fatal(err)
	}
}

// meddle changes guests outside the gate.
func (f *fleet) meddle() {
	n := f.name("meddled")
	switch rapid.IntRange(0, 3).Draw(f.rt, "how") {
	case 0:
		f.back.remove(n)
		f.back.put(n)
	case 1:
		if f.back.has(n) {
			f.back.change(n, func(o *op.Observed) { o.Storage = append(slices.Clone(o.Storage), "disk:foreign") })
		}
	case 2:
		f.Pass(time.Duration(rapid.IntRange(0, 30).Draw(f.rt, "hours")) * time.Hour)
	}
}

// taking is what takes data with it.
var taking = map[string]bool{"guest.destroy": true, "guest.wipe": true}

// check checks everything that was done.
func (f *fleet) check(untouched op.Observed) {
	runs := map[op.StepID]int{}
	for _, d := range f.back.done {
		runs[d.step.ID]++
		if !taking[d.step.Op] || d.step.Verdict.Class == op.Destructive {
			continue
		}
		prov, err := f.gate.Provenance(f.ctx, d.before.Incarnation)
		switch {
		case err != nil:
			f.rt.Fatal(err)
		case prov == nil:
			f.rt.Fatalf("%s of %s ran unsigned on what the gate did not make", d.step.Op, d.before.Incarnation)
		case slices.Contains(d.before.Storage, "disk:foreign"):
			f.rt.Fatalf("%s took a foreign disk unsigned", d.step.ID)
		case d.before.Protected:
			f.rt.Fatalf("%s took what is protected unsigned", d.step.ID)
		case d.step.Undoes != 0 && prov.Job != d.step.ID.Job:
			f.rt.Fatalf("the compensation %s took what %s made", d.step.ID, prov.Job)
		case d.step.Undoes == 0 && (!prov.Scratch || prov.Agent != "builder" && prov.Agent != "other"):
			f.rt.Fatalf("%s took what is not scratch unsigned", d.step.ID)
		}
	}
	for _, d := range f.back.done {
		if d.step.Verdict.Class == op.Destructive {
			r, err := f.gate.Request(f.ctx, d.step.ID)
			if err != nil || len(r.Signatures) == 0 {
				f.rt.Fatalf("%s ran unsigned", d.step.ID)
			}
			if runs[d.step.ID] > 1 {
				f.rt.Fatalf("%s was signed once and ran %d times", d.step.ID, runs[d.step.ID])
			}
		}
	}
	for _, id := range f.jobs {
		f.checkJob(id)
	}
	if now := f.back.get(untouched.Target.Name); now.Incarnation != untouched.Incarnation || now.Fingerprint != untouched.Fingerprint {
		f.rt.Fatal("a guest that no job names was touched")
	}
}

func (f *fleet) checkJob(id op.JobID) {
	j := f.job(id)
	undone := map[int]bool{}
	for _, s := range j.Steps {
		if s.Undoes == 0 {
			continue
		}
		of := j.Steps[s.Undoes-1]
		switch {
		case of.Target != s.Target, s.Op != "guest.undelete" && of.Incarnation != s.Incarnation,
			s.Op == "guest.undelete" && s.Params.Str("incarnation") != string(of.Incarnation):
			f.rt.Fatalf("%s is to take back %s and names something else", s.ID, of.ID)
		case of.State != op.StateSucceeded:
			f.rt.Fatalf("%s takes back %s, which is %s", s.ID, of.ID, of.State)
		case undone[s.Undoes]:
			f.rt.Fatalf("%s is taken back twice", of.ID)
		}
		undone[s.Undoes] = true
	}
	if open := !slices.ContainsFunc(j.Steps, func(s op.Step) bool { return s.State.Open() }); open == j.FinishedAt.IsZero() {
		f.rt.Fatalf("%s is finished or not, but its steps say otherwise: %v", id, f.states(id))
	}
}

// TestCompensationTouchesOnlyWhatTheJobMade is P05, P15 and rule 1 of what must
// always hold, over random jobs, answers, failures and changes outside the gate.
func TestCompensationTouchesOnlyWhatTheJobMade(t *testing.T) {
	w := newWorld(t)
	run := 0
	rapid.Check(t, func(rt *rapid.T) {
		run++
		f := &fleet{world: w, rt: rt, before: map[string]op.Observed{}}
		w.back.mu.Lock()
		clear(w.back.guests)
		clear(w.back.trash)
		w.back.done, w.back.fail = nil, nil
		w.back.mu.Unlock()
		for i := range 4 {
			n := fmt.Sprintf("r%d-%d", run, i)
			f.names = append(f.names, n)
			if i < 3 {
				f.before[n] = w.back.put(n)
			}
		}
		untouched := w.back.put(fmt.Sprintf("r%d-bystander", run))
		for range rapid.IntRange(1, 6).Draw(rt, "turns") {
			rapid.SampledFrom([]func(){f.submitJob, f.submitJob, f.answer, f.work, f.work, f.meddle}).Draw(rt, "turn")()
		}
		f.settle()
		f.check(untouched)
		for _, n := range slices.Sorted(maps.Keys(f.before)) {
			for _, d := range w.back.done {
				if taking[d.step.Op] && d.before.Incarnation == f.before[n].Incarnation && d.step.Verdict.Class != op.Destructive {
					rt.Fatalf("%s was there before and was taken unsigned by %s", n, d.step.ID)
				}
			}
		}
	})
	w.verifyLog()
}

// settle lets all jobs end: it rejects what still waits.
func (f *fleet) settle() {
	for range 20 {
		f.back.fail = nil
		f.work()
		waiting := f.waiting()
		for _, r := range waiting {
			f.reject(r)
		}
		targets, err := f.gate.OpenTargets(f.ctx)
		if err != nil {
			f.rt.Fatal(err)
		}
		if len(targets) == 0 && len(waiting) == 0 {
			return
		}
	}
	f.rt.Fatal("jobs go on for ever")
}

// TestCompensationLeavesWhatWasReplaced: an operator replaced the guest that a job
// made, before the job failed.
func TestCompensationLeavesWhatWasReplaced(t *testing.T) {
	w := newWorld(t)
	for name, meddle := range map[string]func(){
		"replaced":     func() { w.back.remove("new"); w.back.put("new") },
		"foreign disk": func() { w.back.change("new", func(o *op.Observed) { o.Storage = append(o.Storage, "disk:2") }) },
		"protected":    func() { w.back.change("new", func(o *op.Observed) { o.Spec = op.Params{"protected": true} }) },
		"a dependent": func() {
			w.back.change("new", func(o *op.Observed) { o.Dependent = []op.Target{{Kind: "guest", Name: "a"}} })
		},
		"adopted": func() { require.NoError(t, w.gate.Adopt(w.ctx, "fleet", w.back.get("new"))) },
		"protected by a step": func() {
			w.mustSubmit(ask("guest.set-config", "new", "protected", true))
			id, ok := must.Two(w.gate.Runnable(w.ctx, op.Target{Kind: "guest", Name: "new"}))(t)
			require.True(t, ok)
			require.NoError(t, w.execute(id))
			w.back.change("new", func(o *op.Observed) { o.Spec = op.Params{"protected": false} })
		},
	} {
		t.Run(name, func(t *testing.T) {
			w.back.put("a")
			w.back.remove("new")
			j := w.mustSubmit(ask("guest.create", "new"), ask("guest.start", "a"))
			require.NoError(t, w.execute(op.StepID{Job: j.ID, Index: 1}))
			meddle()
			was := w.back.get("new").Incarnation
			w.back.fail = func(s op.Step) error {
				if s.ID == (op.StepID{Job: j.ID, Index: 2}) {
					return errors.New("no")
				}
				return nil
			}
			require.Error(t, w.execute(op.StepID{Job: j.ID, Index: 2}))
			w.run()
			require.Equal(t, was, w.back.get("new").Incarnation, "it is still there")
			require.Contains(t, []op.State{op.StatePending, op.StateSuperseded}, w.job(j.ID).Steps[2].State)
		})
	}
}

// TestFailingCompensationKeepsTheOthers: if one compensation fails, the others still
// run.
func TestFailingCompensationKeepsTheOthers(t *testing.T) {
	w := newWorld(t, "a")
	j := w.mustSubmit(ask("guest.create", "one"), ask("guest.create", "two"), ask("guest.start", "a"))
	w.back.fail = func(s op.Step) error {
		if s.ID.Index == 3 || s.Op == "guest.destroy" && s.Target.Name == "two" {
			return errors.New("no")
		}
		return nil
	}
	w.run()
	require.Equal(t, []op.State{op.StateSucceeded, op.StateSucceeded, op.StateFailed, op.StateFailed, op.StateSucceeded}, w.states(j.ID))
	require.True(t, w.back.has("two"))
	require.False(t, w.back.has("one"))
	require.Equal(t, op.StateFailed, w.job(j.ID).State())
	require.False(t, w.job(j.ID).FinishedAt.IsZero())
}

// TestTransientErrorsEnd: the gate tries a benign step again, but not for ever.
func TestTransientErrorsEnd(t *testing.T) {
	w := newWorld(t, "a")
	j := w.mustSubmit(ask("guest.start", "a"))
	id := j.Steps[0].ID
	tries := 0
	for w.job(j.ID).State() == op.StatePlanned {
		tries++
		w.use(id)
		must.Get(w.gate.Record(w.ctx, id, gate.Outcome{Err: errors.New("busy"), Transient: true}))(t)
	}
	require.Equal(t, 8, tries)
	require.Equal(t, op.StateFailed, w.job(j.ID).State())

	r := w.request(ask("guest.destroy", "a"))
	w.mustApprove(r)
	w.use(r.ID)
	must.Get(w.gate.Record(w.ctx, r.ID, gate.Outcome{Err: errors.New("busy"), Transient: true}))(t)
	require.Equal(t, op.StateFailed, w.job(r.ID.Job).State(), "a signed step is dispatched once, whatever its driver says")
	must.Fail(w.gate.Permit(w.ctx, r.ID))(t, refusal.Conflict)
}
