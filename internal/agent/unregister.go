package agent

import (
	"context"

	"gated/internal/op"
)

// Unregister takes a name away from its process or token. commit writes that
// down; the name answers until it returned nil. Config.Ended is not called.
//
// as is Registration.Who of whom Who or WhoByToken took the caller for; only
// that registration may be given up, and not the next one of its name. An
// operator, as the server knows it, may take any. Refusals: NotHolder;
// UnknownTarget for a name that is not registered.
func (r *Registry) Unregister(ctx context.Context, name, as string, operator bool, commit func(context.Context, Registration) error) (Registration, error) {
	if name != op.AgentName(as) && !operator {
		return Registration{}, op.Refuse(op.NotHolder, "the caller is not %q", name).
			WithHint("an agent gives up its own name; an operator may take any")
	}
	r.mu.RLock()
	e := r.byName[name]
	known := e != nil && e.committed && (operator || e.Who() == as)
	r.mu.RUnlock()
	if !known {
		return Registration{}, op.Refuse(op.UnknownTarget, "no agent %q is registered", name).WithHint("gated agent list shows who is")
	}
	if err := commit(ctx, e.Registration); err != nil {
		return Registration{}, err
	}
	r.leave(e)
	return e.Registration, nil
}
