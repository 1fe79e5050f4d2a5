package service

import (
	"context"
	"time"

	"gated/internal/authz"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/gate"
	"gated/internal/host/server"
)

// Decider is a gate as the server sees it.
type Decider struct {
	*gate.Gate
	// Held says why a step that may run does not, and when it is tried again; "" if it knows no reason. Held is nil if
	// nothing runs steps.
	Held func(op.Step) (why string, next time.Time)
}

// Jobs lists jobs.
func (d Decider) Jobs(ctx context.Context, q server.JobQuery) ([]op.Job, error) {
	return d.Gate.Jobs(ctx, gate.JobFilter{State: q.State, After: q.After, Through: q.Through, Limit: q.Limit, Bytes: q.Bytes})
}

// Requests lists requests.
func (d Decider) Requests(ctx context.Context, q server.RequestQuery) ([]op.Request, error) {
	return d.RequestPage(ctx, gate.RequestFilter(q))
}

// Job shows a job with its steps' output, and why one of them waits.
func (d Decider) Job(ctx context.Context, id op.JobID) (op.Job, error) {
	j, err := d.Gate.ShownJob(ctx, id)
	for i := range j.Steps {
		if err == nil {
			err = d.whyNot(ctx, &j.Steps[i])
		}
	}
	return j, err
}

// whyNot fills in why a step that may run does not: it waits for an operator's decision about its target, or a driver
// or the policy keeps it waiting.
func (d Decider) whyNot(ctx context.Context, s *op.Step) error {
	wait, waits, err := d.WaitsFor(ctx, *s)
	switch {
	case err != nil:
		return err
	case waits:
		s.Code, s.Detail, s.RetryAt = refusal.Unavailable, wait.Why(), wait.Until
	case d.Held != nil:
		d.whyHeld(s)
	}
	return nil
}

// whyHeld fills in why a step that may run does not, and when it is tried again.
func (d Decider) whyHeld(s *op.Step) {
	if s.State != op.StatePlanned && s.State != op.StateAuthorized {
		return
	}
	if why, next := d.Held(*s); why != "" {
		s.Code, s.Detail, s.RetryAt = refusal.Unavailable, why, next
	}
}

// Approve passes an envelope to the gate.
func (d Decider) Approve(ctx context.Context, by op.Requester, id op.RequestID, e server.Envelope) (op.Request, error) {
	return d.Gate.Approve(ctx, by, id, authz.Envelope(e))
}

// Reject passes an envelope to the gate.
func (d Decider) Reject(ctx context.Context, by op.Requester, id op.RequestID, e server.Envelope) (op.Request, error) {
	return d.Gate.Reject(ctx, by, id, authz.Envelope(e))
}

// ApproveOffline passes an envelope to the gate.
func (d Decider) ApproveOffline(ctx context.Context, by op.Requester, e server.Envelope) (op.Request, error) {
	return d.Gate.ApproveOffline(ctx, by, authz.Envelope(e))
}
