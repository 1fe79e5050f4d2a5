package daemon

import (
	"context"

	"gated/internal/authz"
	"gated/internal/gate"
	"gated/internal/op"
	"gated/internal/server"
)

// Decider is a gate as the server sees it.
type Decider struct{ *gate.Gate }

// Jobs lists jobs.
func (d Decider) Jobs(ctx context.Context, q server.JobQuery) ([]op.Job, error) {
	return d.Gate.Jobs(ctx, gate.JobFilter{State: q.State, After: q.After, Through: q.Through, Limit: q.Limit})
}

// Job shows a job with what its steps printed.
func (d Decider) Job(ctx context.Context, id op.JobID) (op.Job, error) {
	return d.Gate.ShownJob(ctx, id)
}

// Approve passes an envelope on.
func (d Decider) Approve(ctx context.Context, by op.Requester, id op.RequestID, e server.Envelope) (op.Request, error) {
	return d.Gate.Approve(ctx, by, id, authz.Envelope(e))
}

// Reject passes an envelope on.
func (d Decider) Reject(ctx context.Context, by op.Requester, id op.RequestID, e server.Envelope) (op.Request, error) {
	return d.Gate.Reject(ctx, by, id, authz.Envelope(e))
}

// ApproveOffline passes an envelope on.
func (d Decider) ApproveOffline(ctx context.Context, by op.Requester, e server.Envelope) (op.Request, error) {
	return d.Gate.ApproveOffline(ctx, by, authz.Envelope(e))
}
