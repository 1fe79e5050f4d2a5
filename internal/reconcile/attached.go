package reconcile

import (
	"context"
	"errors"
	"sync"

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

	elsewhere bool // another host dispatched it, and may still be at it
}

func (r *Reconciler) attach(step op.Step, a *attached) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.target(step.Target).attached = a
}

// Elsewhere reports whether the end of a step is not known that another host dispatched (Config.Moved).
func (r *Reconciler) Elsewhere() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range r.targets {
		if m.attached != nil && m.attached.elsewhere {
			return true
		}
	}
	return false
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
	if _, again := r.record(ctx, a.step, a.outcome); again {
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
	out = Resolve(a.step, o)
	if a.elsewhere && out.Transient {
		out.Err, out.Transient, out.Unknown = nil, false, true
		out.Detail = "another host was at it and does not answer; look at the target, then ask again"
	}
	return out, true, nil
}

// released is how many targets of a requester are tried again after one of its steps ended. It is more than one,
// because a target may have nothing to run.
const released = 2

// shares bounds the unsigned steps that run for one requester at a time, so that slow steps of one uid do not take
// every worker. Targets without a place wait in aside, and hold no worker.
type shares struct {
	most int

	mu      sync.Mutex
	running map[string]int
	aside   map[string][]op.Target
	waiting map[op.Target]bool // in aside
}

func newShares(most int) *shares {
	return &shares{most: most, running: map[string]int{}, aside: map[string][]op.Target{}, waiting: map[op.Target]bool{}}
}

// share names the share for a requester: all agents of a uid have one, and all sets of desired state have one.
func share(by op.Requester) string {
	if by.Source == op.SourceAPI {
		return by.Payer()
	}
	return string(by.Source)
}

// enter takes a place for a step on t, or keeps t for leave to return.
func (s *shares) enter(by string, t op.Target) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running[by] < s.most {
		s.running[by]++
		return true
	}
	if !s.waiting[t] {
		s.waiting[t] = true
		s.aside[by] = append(s.aside[by], t)
	}
	return false
}

// leave gives a place back, and returns the targets that wait for one.
func (s *shares) leave(by string) []op.Target {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running[by]--; s.running[by] == 0 {
		delete(s.running, by)
	}
	n := min(released, len(s.aside[by]))
	out := s.aside[by][:n:n]
	if s.aside[by] = s.aside[by][n:]; len(s.aside[by]) == 0 {
		delete(s.aside, by)
	}
	for _, t := range out {
		delete(s.waiting, t)
	}
	return out
}
