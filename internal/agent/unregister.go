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
// operator who is no agent may take a token's besides, where commit agrees: a
// token that is lost gives nothing up. A process's name goes when that ends.
// Refusals: NotHolder; UnknownTarget for a name that is not registered.
func (r *Registry) Unregister(ctx context.Context, name, as string, operator bool, commit func(context.Context, Registration) error) (Registration, error) {
	own := name == op.AgentName(as)
	if !own && !operator {
		return Registration{}, op.Refuse(op.NotHolder, "the caller is not %q", name).WithHint("an agent gives up its own name alone")
	}
	r.mu.RLock()
	e := r.byName[name]
	known := e != nil && e.committed && (!own || e.Who() == as)
	r.mu.RUnlock()
	switch {
	case !known:
		return Registration{}, op.Refuse(op.UnknownTarget, "no agent %q is registered", name).WithHint("gated agent list shows who is")
	case !own && e.Token == "":
		return Registration{}, op.Refuse(op.NotHolder, "%q is bound to process %d, which alone may give the name up", name, e.Process.PID).
			WithHint("the name goes when that process ends")
	}
	if err := commit(ctx, e.Registration); err != nil {
		return Registration{}, err
	}
	r.leave(e)
	return e.Registration, nil
}
