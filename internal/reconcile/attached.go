package reconcile

import (
	"context"
	"errors"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver"
	"gated/internal/gate"
)

// attached is a dispatched step whose end is not in the journal. While there is one, nothing else of its target runs.
type attached struct {
	step    op.Step
	task    string       // the back end's id of it; "" if it gave none
	outcome gate.Outcome // the step's end, if ended
	ended   bool
}

func (r *Reconciler) attach(step op.Step, a *attached) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.target(step.Target).attached = a
}

// attend ends what is attached to a target if it can. It reports whether nothing is left.
func (r *Reconciler) attend(ctx context.Context, d driver.Driver, t op.Target) bool {
	ctx = context.WithoutCancel(ctx)
	r.mu.Lock()
	var a *attached
	if m := r.targets[t]; m != nil {
		a = m.attached
	}
	r.mu.Unlock()
	if a == nil {
		return true
	}
	if !a.ended {
		out, done, err := r.find(ctx, d, a)
		if err != nil {
			return r.later(t, "task", err)
		}
		if !done {
			r.queue.addAfter(t, poll)
			return false
		}
		a.outcome, a.ended = out, true
	}
	if r.record(ctx, a.step, a.outcome) {
		r.queue.add(t)
	}
	return false
}

// find asks the back end about the task. If there is no task, or the back end no longer knows it, find looks at the
// target. If neither works, it records nothing: a later look will see what happened.
func (r *Reconciler) find(ctx context.Context, d driver.Driver, a *attached) (out gate.Outcome, done bool, err error) {
	if a.task != "" {
		p, err := d.Task(ctx, a.task)
		switch {
		case err == nil && !p.Done:
			return out, false, nil
		case err == nil:
			return r.outcome(ctx, d, a.step, driver.Result{}, p.Err), true, nil
		case !errors.Is(err, refusal.UnknownTarget):
			return out, false, err
		}
	}
	o, err := observe(ctx, d, a.step.Afterwards())
	if err != nil {
		return out, false, err
	}
	return Resolve(a.step, o), true, nil
}
