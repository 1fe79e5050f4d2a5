package gate

import (
	"context"
	"slices"
	"time"

	"gated/internal/op"
)

// Shown is Request for people who are about to decide: where it waits, with what
// its target looks like now. What would be lost may have grown since the request
// was made, without anything that a signature covers having changed. If the
// target cannot be looked at, or is another one, the facts stay those of then.
func (g *Gate) Shown(ctx context.Context, id op.RequestID) (op.Request, error) {
	r, err := g.Request(ctx, id)
	if err != nil || r.Step.State != op.StatePending {
		return r, err
	}
	o, err := g.look(ctx, r.Step.Look())
	if err == nil && stale(r.Step, o) == nil {
		r.Facts, r.FactsAt = o.Facts, g.clock.Now().Now
	}
	return r, nil
}

// present fills in what people see of a request that waits: what is asked now,
// what is still needed, and who could give it.
func (g *Gate) present(held *rules, r *op.Request, now time.Time) {
	need, err := held.requirement(*r, now)
	if err != nil {
		return // it is refused or issued anew when somebody approves it
	}
	r.Need = need
	if r.Step.State != op.StatePending || held.trust.Blocked() != nil {
		return
	}
	r.Signatures, _ = split(held, need, r.Signatures, now)
	r.Could = map[op.Role][]string{}
	for _, role := range need.Roles() {
		for _, who := range held.trust.Could(role, need.Touch(role), now) {
			if !slices.ContainsFunc(r.Signatures, func(s op.Signed) bool { return s.Principal == who && s.Role == role }) {
				r.Could[role] = append(r.Could[role], who)
			}
		}
	}
	owed, err := held.owed(*r, now)
	if err != nil {
		return
	}
	for _, o := range owed {
		r.Owed = append(r.Owed, o.Key+" "+string(o.Role))
	}
}
