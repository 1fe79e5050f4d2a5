package gate

import (
	"slices"
	"time"

	"gated/internal/op"
)

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
