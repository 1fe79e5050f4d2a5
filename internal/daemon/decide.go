package daemon

import (
	"context"

	"gated/internal/authz"
	"gated/internal/gate"
	"gated/internal/op"
	"gated/internal/server"
)

// decider is the gate as the server sees it.
type decider struct{ *gate.Gate }

// Jobs lists jobs.
func (d decider) Jobs(ctx context.Context, q server.JobQuery) ([]op.Job, error) {
	return d.Gate.Jobs(ctx, gate.JobFilter{State: q.State, After: q.After, Through: q.Through, Limit: q.Limit})
}

// Approve passes an envelope on.
func (d decider) Approve(ctx context.Context, by op.Requester, id op.RequestID, e server.Envelope) (op.Request, error) {
	return d.Gate.Approve(ctx, by, id, authz.Envelope(e))
}

// Reject passes an envelope on.
func (d decider) Reject(ctx context.Context, by op.Requester, id op.RequestID, e server.Envelope) (op.Request, error) {
	return d.Gate.Reject(ctx, by, id, authz.Envelope(e))
}

// ApproveOffline passes an envelope on.
func (d decider) ApproveOffline(ctx context.Context, by op.Requester, e server.Envelope) (op.Request, error) {
	return d.Gate.ApproveOffline(ctx, by, authz.Envelope(e))
}
