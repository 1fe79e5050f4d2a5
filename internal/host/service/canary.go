package service

import (
	"context"

	"gated/internal/base/op"
	"gated/internal/log/canary"
)

// Canary ends the canary's alerts for operators.
type Canary struct{ canary *canary.Canary }

// NewCanary ends alerts of c.
func NewCanary(c *canary.Canary) Canary { return Canary{c} }

// Accept refuses as canary.Accept does.
func (a Canary) Accept(ctx context.Context, by op.Requester, change int64) error {
	return a.canary.Accept(ctx, by.String(), change)
}
