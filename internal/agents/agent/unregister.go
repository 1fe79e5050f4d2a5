package agent

import (
	"context"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// Unregister takes a name away from its process or token. commit stores that; the name counts until commit returned
// nil. Config.Ended is not called.
//
// as is Registration.Who of the registration that Who or WhoByToken found for the caller. Only that registration may be
// given up, not the next one of its name. An operator who is not an agent may also take a token's name away, if commit
// agrees, because a lost token cannot give it up. A process's name ends with the process. Refusals: NotHolder;
// UnknownTarget for a name that is not registered.
func (r *Registry) Unregister(ctx context.Context, name, as string, operator bool, commit func(context.Context, Registration) error) (Registration, error) {
	own := name == op.AgentName(as)
	if !own && !operator {
		return Registration{}, refusal.New(refusal.NotHolder, "the caller is not %q", name).
			WithHint("an agent gives up its own name alone")
	}
	r.mu.RLock()
	e := r.byName[name]
	known := e != nil && e.committed && (!own || e.Who() == as)
	r.mu.RUnlock()
	switch {
	case !known:
		return Registration{}, refusal.New(refusal.UnknownTarget, "no agent %q is registered", name).
			WithHint("gated agent list shows who is")
	case !own && e.Token == "":
		return Registration{}, refusal.New(refusal.NotHolder, "%q is bound to process %d, which alone may give the name up",
			name, e.Process.PID).
			WithHint("the name goes when that process ends")
	}
	if err := commit(ctx, e.Registration); err != nil {
		return Registration{}, err
	}
	r.leave(e)
	return e.Registration, nil
}
