package daemon

import (
	"context"
	"errors"

	"gated/internal/api"
	"gated/internal/driver"
	"gated/internal/gate"
	"gated/internal/op"
)

// guests looks at guests for the server.
type guests struct {
	gate   *gate.Gate
	driver driver.Driver
}

// Guests lists what the driver sees, without the walk through each guest's
// files that a single look takes.
func (g guests) Guests(ctx context.Context, by op.Requester) ([]api.Guest, error) {
	all, err := g.driver.List(ctx)
	if err != nil && driver.Missing(err) == "" {
		return nil, err // else those that are seen are shown, and status says which back end is away
	}
	out := make([]api.Guest, 0, len(all))
	for _, o := range all {
		p, err := g.gate.Provenance(ctx, o.Incarnation)
		if err != nil {
			return nil, err
		}
		out = append(out, api.GuestOf(o, p, g.destroy(ctx, by, o)))
	}
	return out, nil
}

// Guest looks at one guest.
func (g guests) Guest(ctx context.Context, by op.Requester, name string) (api.Guest, error) {
	t := op.Target{Kind: "guest", Name: name}
	o, err := g.driver.Observe(ctx, op.At(t))
	if err != nil {
		if r := (*op.Refusal)(nil); errors.As(err, &r) {
			return api.UnknownGuest(name, err), nil
		}
		return api.Guest{}, err
	}
	if !o.Present && len(o.Trash) == 0 {
		return api.Guest{}, op.Refuse(op.UnknownTarget, "there is no %s", t).WithHint("gated guests lists what there is")
	}
	p, err := g.gate.Provenance(ctx, o.Incarnation)
	if err != nil {
		return api.Guest{}, err
	}
	return api.GuestOf(o, p, g.destroy(ctx, by, o)), nil
}

// destroy says what a destroy by this caller would be, nil where there is
// nothing to destroy.
func (g guests) destroy(ctx context.Context, by op.Requester, o op.Observed) *op.Verdict {
	if !o.Present {
		return nil
	}
	v, err := g.gate.Verdict(ctx, by, op.Step{Op: "guest.destroy", Target: o.Target, Params: op.Params{}}, o)
	if err != nil {
		return nil
	}
	return &v
}
