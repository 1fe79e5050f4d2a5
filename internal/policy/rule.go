package policy

import (
	"slices"
	"strings"
	"time"

	"gated/internal/op"
)

// MaxThreshold bounds the people that a rule may ask for.
const MaxThreshold = 16

// Rule asks for more than the built-in rules do of the destructive steps that
// it matches. It never makes a benign step wait.
type Rule struct {
	Where string // "gated.yaml:12", for people

	// What it matches. Op and Target are patterns in which * stands for any
	// text and ? for any one character; an empty one matches all. Labels have
	// to be observed on the target, each with a value that its pattern matches.
	Op     string
	Target string // over "kind/name"
	Labels map[string]string

	// What it asks for.
	Role        op.Role // in which the signatures are made; empty: any that may sign the operation
	Threshold   int     // distinct people, 1 to MaxThreshold
	Touch       op.Touch
	CoolOff     time.Duration // between the last signature and the step
	Window      *op.Window    // when the step may run; nil: at any time
	MaxValidity time.Duration // of the payload; 0: as long as the policy says
}

// validateRules refuses, as BadParams, rules that ask for nothing, for what
// nobody may give, or for what cannot be met in time.
func (p Policy) validateRules() error {
	for _, role := range p.Roles {
		if role.BuiltIn() || !role.Valid() {
			return op.Refuse(op.BadParams, "the role %q is built in, or no name ([a-z][a-z0-9-]{0,31})", string(role))
		}
	}
	for _, r := range p.Rules {
		if err := p.validate(r); err != nil {
			refusal := *op.AsRefusal(err)
			refusal.Detail = r.Where + ": " + refusal.Detail
			return &refusal
		}
	}
	return p.validateTimes()
}

func (p Policy) validate(r Rule) error {
	switch {
	case r.Threshold < 1 || r.Threshold > MaxThreshold:
		return op.Refuse(op.BadParams, "the rule's threshold is %d, not 1 to %d", r.Threshold, MaxThreshold)
	case r.CoolOff < 0:
		return op.Refuse(op.BadParams, "the rule's cool_off is %s", r.CoolOff)
	case r.MaxValidity < 0 || r.MaxValidity > p.MaxValidity:
		return op.Refuse(op.BadParams, "the rule's max_validity is %s, not at most %s; it can only be tightened", r.MaxValidity, p.MaxValidity)
	case r.Touch != op.TouchNone && r.Touch != op.TouchPresent && r.Touch != op.TouchVerified:
		return op.Refuse(op.BadParams, "the rule's touch is %q, neither touch nor verification", string(r.Touch))
	case r.Role != "" && !r.Role.BuiltIn() && !slices.Contains(p.Roles, r.Role):
		return op.Refuse(op.BadParams, "there is no role %q", string(r.Role)).WithHint("name it under policy.roles")
	}
	for _, pattern := range append([]string{r.Op, r.Target}, values(r.Labels)...) {
		if strings.ContainsAny(pattern, `[]{}\\!^,`) {
			return op.Refuse(op.BadParams, "%q is not a pattern: only * and ? stand for something else", pattern)
		}
	}
	found := false
	for _, spec := range op.Catalogue() {
		if !match(r.Op, spec.Name) {
			continue
		}
		found = true
		if r.Role.BuiltIn() && !spec.MayApprove(r.Role) {
			return op.Refuse(op.BadParams, "the role %s may not sign %s, which the rule matches", r.Role, spec.Name)
		}
	}
	if !found {
		return op.Refuse(op.BadParams, "the rule's op %q matches no operation", r.Op).WithHint("gated ops lists them")
	}
	return nil
}

// validateTimes refuses a delay that outlives the payload: the step could never
// run.
func (p Policy) validateTimes() error {
	for _, spec := range op.Catalogue() {
		for _, slow := range p.Rules {
			for _, short := range append(p.Rules, Rule{Where: "max_validity", MaxValidity: p.MaxValidity}) {
				if match(slow.Op, spec.Name) && match(short.Op, spec.Name) && short.MaxValidity > 0 && slow.CoolOff >= short.MaxValidity {
					return op.Refuse(op.BadParams, "%s: the rule's cool_off of %s is no shorter than the max_validity of %s for %s (%s): it could never run",
						slow.Where, slow.CoolOff, short.MaxValidity, spec.Name, short.Where)
				}
			}
		}
	}
	return nil
}

func values(m map[string]string) []string {
	var out []string
	for _, v := range m {
		out = append(out, v)
	}
	return out
}

// match reports whether the whole of s fits the pattern; an empty pattern fits
// everything.
func match(pattern, s string) bool {
	if pattern == "" {
		return true
	}
	star, mark := -1, 0
	p, i := 0, 0
	for i < len(s) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, mark = p, i
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == s[i]):
			p++
			i++
		case star >= 0:
			mark++
			p, i = star+1, mark
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}

// covers reports whether labels have all that the rule looks for.
func (r Rule) covers(labels map[string]string) bool {
	for k, pattern := range r.Labels {
		v, ok := labels[k]
		if !ok || !match(pattern, v) {
			return false
		}
	}
	return true
}
