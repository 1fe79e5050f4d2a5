package policy

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"gated/internal/base/op"
)

// Subject is a step as rules see it.
type Subject struct {
	Spec     op.Spec
	Target   op.Target
	Params   op.Params
	Labels   map[string]string // from the look at the target
	Rotation *Rotation         // only of a trust.rotate
}

// Rotation is what a rotation of the trust file changes.
type Rotation struct {
	Roles    []op.Role // the roles of all added and removed lines
	Reserved bool      // a line of recovery, of break-glass or of a CA changes
}

// Requirement returns what the policy asks for a step: the built-in demand and the
// demands of every rule that matches. The order of the rules does not change what
// meets it.
func (p Policy) Requirement(s Subject) op.Requirement {
	out := op.Requirement{Ways: ways(s), MaxValidity: p.MaxValidity}
	if p.BreakGlass.reaches(s.Spec) {
		out.Ways = append(out.Ways, p.BreakGlass.way())
	}
	for _, r := range p.Rules {
		if r.matches(s) {
			out = out.Stricter(r.asks(s, out))
		}
		if s.Rotation != nil {
			out = out.Stricter(r.guards(*s.Rotation, s, out))
		}
	}
	return out
}

// ways returns the built-in demands: one signature in a role that may sign the
// operation. Recovery signs alone, and only recovery changes its own lines. A
// rotation without details counts as a change of such lines.
func ways(s Subject) []op.Way {
	var out []op.Way
	reserved := s.Spec.Kind == op.KindTrust && (s.Rotation == nil || s.Rotation.Reserved)
	for _, name := range []string{"", op.WayRecovery} {
		if own := signers(s.Spec, name); len(own) > 0 && (name != "" || !reserved) {
			out = append(out, op.Way{Name: name, Demands: []op.Demand{{Rule: op.BuiltIn, Roles: own, Threshold: 1}}})
		}
	}
	return out
}

// signers returns the roles that sign an operation in a way. One signature in any of
// them is enough if no rule says more.
func signers(spec op.Spec, way string) []op.Role {
	return slices.DeleteFunc(slices.Clone(spec.Roles), func(r op.Role) bool { return (r == op.Recovery) != (way == op.WayRecovery) })
}

// asks adds the rule's demand to each way that it is about. A role of the
// configuration is no part of recovery. Of break-glass a rule asks what keys attest alone.
func (r Rule) asks(s Subject, of op.Requirement) op.Requirement {
	out := op.Requirement{CoolOff: r.CoolOff, MaxValidity: of.MaxValidity, Single: r.Single}
	if r.MaxValidity > 0 {
		out.MaxValidity = r.MaxValidity
	}
	if r.Window != nil {
		out.Windows = []op.Window{*r.Window}
	}
	for _, w := range of.Ways {
		own := signers(s.Spec, w.Name)
		asked := op.Way{Name: w.Name}
		switch {
		case w.Name == op.WayBreakGlass:
			asked.Demands = []op.Demand{r.onBreakGlass()}
		case slices.Contains(own, r.Role), w.Name == "" && r.Role != "" && !r.Role.BuiltIn():
			asked.Demands = []op.Demand{r.demand(r.Role)}
		case r.Role == "", w.Name == "" && !s.Spec.MayApprove(r.Role):
			// A role that may not approve the step occurs only if the step escapes a rule for other operations.
			asked.Demands = []op.Demand{r.demand(own...)}
		}
		out.Ways = append(out.Ways, asked)
	}
	return out
}

// guards returns what a rule about a role asks for a planned rotation that changes
// the role. As many people who may rotate must sign, with keys listed before the
// rotation. For a role of the configuration, as many people of that role must sign
// too.
func (r Rule) guards(touched Rotation, s Subject, of op.Requirement) op.Requirement {
	out := op.Requirement{MaxValidity: of.MaxValidity}
	for _, w := range of.Ways {
		asked := op.Way{Name: w.Name}
		for _, role := range touched.Roles {
			if w.Name != "" || !r.isFor(role) {
				continue
			}
			asked.Demands = append(asked.Demands, r.demand(signers(s.Spec, w.Name)...))
			if !role.BuiltIn() {
				asked.Demands = append(asked.Demands, r.demand(role))
			}
		}
		out.Ways = append(out.Ways, asked)
	}
	return out
}

// isFor reports whether signatures in a role count for the rule.
func (r Rule) isFor(role op.Role) bool {
	if r.Role != "" {
		return r.Role == role
	}
	return slices.ContainsFunc(op.Catalogue(), func(s op.Spec) bool { return r.speaksOf(s) && s.MayApprove(role) })
}

func (r Rule) demand(roles ...op.Role) op.Demand {
	return op.Demand{Rule: r.Where, Roles: roles, Threshold: r.Threshold, Touch: r.Touch, NoPasskey: r.NoPasskey, Apart: r.Apart}
}

// Unmeetable returns a sentence for each rule that asks for more people than could
// sign. The function of returns those people for a role, what their keys must
// attest, and whether passkeys are left out. A name that has a pattern, as in a CA's line, counts as any number of
// people. The rule is in force anyway: the steps that it matches wait until there
// are more people.
func (p Policy) Unmeetable(of func(role op.Role, touch op.Touch, noPasskey bool) []string) []string {
	var out []string
	for _, r := range p.Rules {
		could := func(role op.Role) []string {
			if r.Role != "" && role != r.Role {
				return of(role, op.TouchNone, false)
			}
			return slices.DeleteFunc(slices.Clone(of(role, r.Touch, r.NoPasskey)), func(who string) bool {
				return r.Apart && p.People[uncertified(who)] == nil && !hasPattern(who)
			})
		}
		for _, roles := range r.signedIn() {
			if n := people(roles, could); n < r.Threshold {
				out = append(out, fmt.Sprintf("%s: the rule needs %d in the role %s, and %d could sign%s", r.Where, r.Threshold, names(roles), n, r.with()))
			}
		}
		out = append(out, r.unmeetableBeside(could)...)
		if r.Apart && len(p.People) == 1 {
			out = append(out, r.Where+": the rule takes no requester's signature, and people in gated.yaml names one person alone")
		}
	}
	return append(out, p.BreakGlass.unmeetable(of)...)
}

// with says which keys and people the rule leaves, if it does not take each.
func (r Rule) with() string {
	said := ""
	switch {
	case r.Touch != op.TouchNone && r.NoPasskey:
		said = " with a security key that is no passkey"
	case r.Touch != op.TouchNone:
		said = " with a security key"
	case r.NoPasskey:
		said = " with a key that is no passkey"
	}
	if r.Apart {
		said += " of those that people in gated.yaml names"
	}
	return said
}

// unmeetableBeside is Unmeetable for the built-in demand. It needs a person beside
// those that sign in a role of the configuration.
func (r Rule) unmeetableBeside(could func(op.Role) []string) []string {
	if r.Role == "" || r.Role.BuiltIn() || people([]op.Role{r.Role}, could) < r.Threshold {
		return nil
	}
	var out []string
	for _, own := range (Rule{Op: r.Op, Signed: r.Signed, Target: r.Target, Labels: r.Labels}).signedIn() {
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

// hasPattern reports whether a name of allowed_signers stands for any number of people.
func hasPattern(who string) bool { return strings.ContainsAny(who, "*?!,") }

// people counts the different people who could sign in any of the roles.
func people(roles []op.Role, could func(op.Role) []string) int {
	seen := map[string]bool{}
	for _, role := range roles {
		for _, who := range could(role) {
			if hasPattern(who) {
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
