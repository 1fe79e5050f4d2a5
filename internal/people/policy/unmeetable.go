package policy

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"gated/internal/base/op"
)

// Unmeetable returns a sentence for each rule that asks for more people than could
// sign. The function of returns those people for a role and what their keys must
// attest. A name that has a pattern, as in a CA's line, counts as any number of
// people. The rule is in force anyway: the steps that it matches wait until there
// are more people.
func (p Policy) Unmeetable(of func(op.Role, op.Touch) []string) []string {
	var out []string
	for _, r := range p.Rules {
		could := func(role op.Role) []string {
			if r.Role == "" || role == r.Role {
				return of(role, r.Touch)
			}
			return of(role, op.TouchNone)
		}
		for _, roles := range r.signedIn() {
			if n := people(roles, could); n < r.Threshold {
				out = append(out, fmt.Sprintf("%s: the rule needs %d in the role %s, and %d could sign%s", r.Where, r.Threshold, names(roles), n, touching[r.Touch]))
			}
		}
		out = append(out, r.unmeetableBeside(could)...)
	}
	return out
}

var touching = map[op.Touch]string{op.TouchPresent: " with a security key", op.TouchVerified: " with a security key"}

// unmeetableBeside is Unmeetable for the built-in demand. It needs a person beside
// those that sign in a role of the configuration.
func (r Rule) unmeetableBeside(could func(op.Role) []string) []string {
	if r.Role == "" || r.Role.BuiltIn() || people([]op.Role{r.Role}, could) < r.Threshold {
		return nil
	}
	var out []string
	for _, own := range (Rule{Op: r.Op, Target: r.Target, Labels: r.Labels}).signedIn() {
		all := append(slices.Clone(own), r.Role)
		if n := people(all, could); n <= r.Threshold && !slices.Contains(own, op.Recovery) {
			out = append(out, fmt.Sprintf("%s: the rule needs %d in the role %s and another person in the role %s, and %d could sign in all",
				r.Where, r.Threshold, r.Role, names(own), n))
		}
	}
	return out
}

// signedIn returns lists of roles, one for each way of each operation that the rule
// is about. Signatures in any role of a list count.
func (r Rule) signedIn() [][]op.Role {
	if r.Role != "" {
		return [][]op.Role{{r.Role}}
	}
	var out [][]op.Role
	for _, spec := range op.Catalogue() {
		for _, way := range []string{"", op.WayRecovery} {
			own := signers(spec, way)
			known := slices.ContainsFunc(out, func(x []op.Role) bool { return slices.Equal(x, own) })
			if r.speaksOf(spec) && len(own) > 0 && !known {
				out = append(out, own)
			}
		}
	}
	return out
}

// people counts the different people who could sign in any of the roles.
func people(roles []op.Role, could func(op.Role) []string) int {
	seen := map[string]bool{}
	for _, role := range roles {
		for _, who := range could(role) {
			if strings.ContainsAny(who, "*?!,") {
				return math.MaxInt
			}
			seen[who] = true
		}
	}
	return len(seen)
}

func names(roles []op.Role) string {
	out := make([]string, len(roles))
	for i, r := range roles {
		out[i] = string(r)
	}
	return strings.Join(out, " or ")
}
