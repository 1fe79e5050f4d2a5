package reconcile

import (
	"context"
	"errors"

	"gated/internal/driver"
	"gated/internal/gate"
	"gated/internal/op"
)

// attached is a dispatched step that the journal does not have the end of. While
// there is one, nothing else of its target runs.
type attached struct {
	step    op.Step
	task    string       // the back end's, "" where it gave none
	outcome gate.Outcome // how it ended, if ended
	ended   bool
}

func (r *Reconciler) attach(step op.Step, a *attached) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.target(step.Target).attached = a
}

// attend ends what is attached to a target if it can, and reports whether
// nothing is left.
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

// find asks the back end about the task, or looks at the target where there is
// no task or nobody knows it any more. While neither works, nothing is recorded:
// what is true will be seen later.
func (r *Reconciler) find(ctx context.Context, d driver.Driver, a *attached) (out gate.Outcome, done bool, err error) {
	if a.task != "" {
		p, err := d.Task(ctx, a.task)
		switch {
		case err == nil && !p.Done:
			return out, false, nil
		case err == nil:
			return r.outcome(ctx, d, a.step, driver.Result{}, p.Err), true, nil
		case !errors.Is(err, op.UnknownTarget):
			return out, false, err
		}
	}
	o, err := observe(ctx, d, a.step.Afterwards())
	if err != nil {
		return out, false, err
	}
	return Resolve(a.step, o), true, nil
}
