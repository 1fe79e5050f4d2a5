package policy

import (
	"slices"

	"gated/internal/op"
)

// Subject is a destructive step as rules look at it.
type Subject struct {
	Spec     op.Spec
	Target   op.Target
	Params   op.Params
	Labels   map[string]string // as they were observed
	Rotation *Rotation         // for a trust.rotate
}

// Rotation is what a change of the trust file touches.
type Rotation struct {
	Roles    []op.Role // of every line that is added or removed
	Reserved bool      // one of these is a recovery or a CA line
}

// Requirement returns what the policy asks of a step: the built-in demand, and
// with it those of every rule that matches. The order of the rules makes no
// difference to what meets it.
func (p Policy) Requirement(s Subject) op.Requirement {
	out := op.Requirement{Ways: ways(s), MaxValidity: p.MaxValidity}
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
// operation. Recovery signs alone, and only recovery touches what is its own. A
// rotation that nobody looked into is taken for one of those.
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

// signers returns the roles that sign an operation in a way, any of which will
// do where nothing else is said.
func signers(spec op.Spec, way string) []op.Role {
	return slices.DeleteFunc(slices.Clone(spec.Roles), func(r op.Role) bool { return (r == op.Recovery) != (way == op.WayRecovery) })
}

// asks puts the rule's demand to each way that it is about. A role of the
// configuration's own is no part of recovery.
func (r Rule) asks(s Subject, of op.Requirement) op.Requirement {
	out := op.Requirement{CoolOff: r.CoolOff, MaxValidity: of.MaxValidity}
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
		case slices.Contains(own, r.Role), w.Name == "" && r.Role != "" && !r.Role.BuiltIn():
			asked.Demands = []op.Demand{r.demand(r.Role)}
		case r.Role == "", w.Name == "" && !s.Spec.MayApprove(r.Role):
			// The latter only where a step escapes a rule for other operations.
			asked.Demands = []op.Demand{r.demand(own...)}
		}
		out.Ways = append(out.Ways, asked)
	}
	return out
}

// guards asks of a planned rotation what the rule asks for in a role that the
// rotation touches, in keys that are listed before it: as many people who may
// rotate, and for a role of the configuration's own, as many of its people too.
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

// isFor reports whether signatures in that role count for the rule.
func (r Rule) isFor(role op.Role) bool {
	if r.Role != "" {
		return r.Role == role
	}
	return slices.ContainsFunc(op.Catalogue(), func(s op.Spec) bool { return r.speaksOf(s) && s.MayApprove(role) })
}

func (r Rule) demand(roles ...op.Role) op.Demand {
	return op.Demand{Rule: r.Where, Roles: roles, Threshold: r.Threshold, Touch: r.Touch}
}
