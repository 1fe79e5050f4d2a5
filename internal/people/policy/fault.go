package policy

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// Fault says what is wrong with a rule. The rule asks for nothing, for what no
// person may give, or for what cannot be met in time; or it matches nothing.
type Fault struct {
	Rule int    // its index in Policy.Rules
	Key  string // as the configuration names it
	Why  string // a sentence without a full stop
}

func fault(key, format string, args ...any) *Fault {
	return &Fault{Key: key, Why: fmt.Sprintf(format, args...)}
}

// Fault returns the first fault of the rules, or nil.
func (p Policy) Fault() *Fault {
	if len(p.Rules) > MaxRules {
		return &Fault{Rule: MaxRules, Why: fmt.Sprintf("there are %d rules, more than %d", len(p.Rules), MaxRules)}
	}
	for i, r := range p.Rules {
		for _, check := range []func(Rule) *Fault{p.asksForLittle, patterns, p.signsNothing, p.matchesNothing, p.endless} {
			if f := check(r); f != nil {
				f.Rule = i
				return f
			}
		}
	}
	for i, r := range p.Rules {
		for _, other := range p.Rules {
			if f := r.against(other); f != nil {
				f.Rule = i
				return f
			}
		}
	}
	return nil
}

// validateRoles refuses, as BadParams, a role name that is not valid, or that occurs
// before.
func (p Policy) validateRoles() error {
	for i, role := range p.Roles {
		switch {
		case !role.Valid():
			return refusal.New(refusal.BadParams, "%q is not a role's name ([a-z][a-z0-9-]{0,31})", string(role))
		case role.BuiltIn():
			return refusal.New(refusal.BadParams, "the role %s is built in", role)
		case slices.Contains(p.Roles[:i], role):
			return refusal.New(refusal.BadParams, "the role %s is there twice", role)
		}
	}
	return nil
}

// asksForLittle finds values that are out of bounds. Such a rule would ask for less
// than the built-in rules or the policy.
func (p Policy) asksForLittle(r Rule) *Fault {
	switch {
	case r.Threshold < 1 || r.Threshold > MaxThreshold:
		return fault("threshold", "the threshold is %d, not 1 to %d", r.Threshold, MaxThreshold)
	case !r.Touch.Valid():
		return fault("touch", "the touch is %q, none of none, touch and verification", string(r.Touch))
	case r.CoolOff < 0 || r.CoolOff%time.Second != 0:
		return fault("cool_off", "the cool_off is %s, no length of time in whole seconds", r.CoolOff)
	case r.MaxValidity != 0 && r.MaxValidity < time.Second || r.MaxValidity%time.Second != 0:
		return fault("max_validity", "the max_validity is %s, not one of 1s or more in whole seconds", r.MaxValidity)
	case r.MaxValidity > p.MaxValidity:
		return fault("max_validity", "the max_validity is %s, and the policy's is %s; it can only be tightened", r.MaxValidity, p.MaxValidity)
	case r.Window != nil && *r.Window == (op.Window{}):
		return fault("window", "the window is empty: it could never run")
	default:
		return nil
	}
}

// patterns finds patterns that seem to be of another language.
func patterns(r Rule) *Fault {
	if f := pattern("op", r.Op, ""); f != nil {
		return f
	}
	if f := pattern("target", r.Target, "/"); f != nil {
		return f
	}
	for _, k := range slices.Sorted(maps.Keys(r.Labels)) {
		v := r.Labels[k]
		switch {
		case op.CheckName(k) != nil:
			return fault("labels", "%q is not a label's name ([A-Za-z0-9][A-Za-z0-9._-]{0,127})", k)
		case v == "":
			return fault("labels", "the pattern for the label %s is empty; * matches any value", k)
		case strings.ContainsAny(v, `[]{}\^!`) || tooLong(v):
			return fault("labels", "%q is not a pattern of at most %d characters in which only * and ? stand for something else", v, maxPattern)
		}
	}
	return nil
}

// pattern finds characters that no name has, so the author must mean something else:
// a list, a class of characters, an expression.
func pattern(key, s, also string) *Fault {
	foreign := func(c rune) bool {
		alnum := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		return !alnum && !strings.ContainsRune("._-*?"+also, c)
	}
	if strings.ContainsFunc(s, foreign) || tooLong(s) {
		return fault(key, "%q is not a pattern of at most %d characters: a name in which only * and ? stand for something else", s, maxPattern)
	}
	return nil
}

func tooLong(s string) bool { return utf8.RuneCountInString(s) > maxPattern }

// signsNothing finds faults of a rule's Signed. Each of its patterns has to match an
// operation that the rule can be about.
func (p Policy) signsNothing(r Rule) *Fault {
	switch {
	case len(r.Signed) == 0:
		return nil
	case r.Op != "":
		return fault("signed", "a rule has op or signed, and not both; signed names the operations too")
	case len(r.Signed) > MaxSigned:
		return fault("signed", "there are %d patterns, more than %d", len(r.Signed), MaxSigned)
	}
	for i, s := range r.Signed {
		if s == "" || slices.Contains(r.Signed[:i], s) {
			return fault("signed", "the pattern %q is empty or there twice", s)
		}
		one := r
		one.Op, one.Signed = s, nil
		f := pattern("signed", s, "")
		if f == nil {
			f = p.matchesNothing(one)
		}
		switch {
		case f != nil && f.Key == "op":
			f.Key = "signed"
			return f
		case f != nil:
			return f
		case len(r.Labels) > 0 && !slices.ContainsFunc(op.Catalogue(), func(s op.Spec) bool { return one.speaksOf(s) && !s.Creates }):
			return fault("signed", "%q makes a target, which has no labels before; match it by target", s)
		}
	}
	return nil
}

// matchesNothing finds rules without any effect: for no operation, for no target of
// an operation, or in a role that may not sign one.
func (p Policy) matchesNothing(r Rule) *Fault {
	if r.Role != "" && !r.Role.BuiltIn() && !slices.Contains(p.Roles, r.Role) {
		return fault("role", "there is no role %q; roles of your own are named under policy.roles", string(r.Role))
	}
	known, reached := false, false
	for _, spec := range op.Catalogue() {
		known = known || r.names(spec)
		if !r.speaksOf(spec) {
			continue
		}
		reached = true
		if r.Role.BuiltIn() && !spec.MayApprove(r.Role) {
			return fault("role", "the role %s may not sign %s, which the rule matches", r.Role, spec.Name)
		}
	}
	switch {
	case !known:
		return fault("op", "the pattern %q matches no operation; gated ops lists them", r.Op)
	case !reached && !slices.ContainsFunc(op.Catalogue(), func(s op.Spec) bool { return Rule{Target: r.Target}.speaksOf(s) }):
		return fault("target", "the pattern %q matches no target; it is over kind/name, as in guest/db-*", r.Target)
	case !reached:
		return fault("op", "no operation that the rule's op matches acts on a target that the rule's target and labels match")
	default:
		return nil
	}
}

// endless finds a delay that is longer than the life of every payload.
func (p Policy) endless(r Rule) *Fault {
	if r.CoolOff >= p.MaxValidity {
		return fault("cool_off", "the cool_off of %s is no shorter than the policy's max_validity of %s: it could never run", r.CoolOff, p.MaxValidity)
	}
	return nil
}

// against finds demands of r and another rule, or of r alone, that one step cannot
// both meet.
func (r Rule) against(other Rule) *Fault {
	tooShort := other.MaxValidity > 0 && r.CoolOff >= other.MaxValidity
	apart := r.Window != nil && other.Window != nil && !r.Window.Meets(*other.Window)
	switch {
	case !tooShort && !apart, !r.meets(other):
		return nil
	case tooShort:
		return fault("cool_off", "the cool_off of %s is no shorter than the max_validity of %s at %s: it could never run", r.CoolOff, other.MaxValidity, other.Where)
	default:
		return fault("window", "the window %s and the window %s at %s have no time in common: it could never run", r.Window, other.Window, other.Where)
	}
}
