package service

import (
	"context"
	"time"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/gate"
)

// Held says why a step that may run does not, and when it is tried again; why is "" if it knows no reason.
type Held func(op.Step) (why string, next time.Time)

// ShownJob returns a job with its steps' output, and why one of them waits. held is nil if nothing runs steps.
func ShownJob(ctx context.Context, g *gate.Gate, held Held, id op.JobID) (op.Job, error) {
	j, err := g.ShownJob(ctx, id)
	for i := range j.Steps {
		if err == nil {
			err = whyNot(ctx, g, held, &j.Steps[i])
		}
	}
	return j, err
}

// whyNot fills in why a step that may run does not: it waits for an operator's decision about its target, or a driver
// or the policy keeps it waiting.
func whyNot(ctx context.Context, g *gate.Gate, held Held, s *op.Step) error {
	wait, waits, err := g.WaitsFor(ctx, *s)
	switch {
	case err != nil:
		return err
	case waits:
		s.Code, s.Detail, s.RetryAt = refusal.Unavailable, wait.Why(), wait.Until
	case held != nil:
		held.fill(s)
	}
	return nil
}

// fill fills in why a step that may run does not, and when it is tried again.
func (h Held) fill(s *op.Step) {
	if s.State != op.StatePlanned && s.State != op.StateAuthorized {
		return
	}
	if why, next := h(*s); why != "" {
		s.Code, s.Detail, s.RetryAt = refusal.Unavailable, why, next
	}
}
