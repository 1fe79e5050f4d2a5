package policy

import (
	"slices"
	"strings"
	"time"

	"gated/internal/base/op"
)

// Bounds of rules.
const (
	// MaxThreshold bounds the people that a rule may ask for.
	MaxThreshold = 16
	// MaxRules bounds the rules of a policy.
	MaxRules = 256
	// MaxSigned bounds the patterns of Rule.Signed.
	MaxSigned = 32
)

// Rule asks for more than the built-in rules, of the destructive steps that it
// matches. It delays a benign step only if Signed names the step's operation.
type Rule struct {
	Where string // "gated.yaml:12", for people

	// What the rule matches. In the patterns Op and Target, * means any text and ?
	// any one character; an empty pattern matches all. The target must have all of
	// Labels in the look, each with a value that its pattern matches.
	Op     string
	Target string // over "kind/name"
	Labels map[string]string
	// Signed has patterns like Op, in its place. The operations that one of them
	// matches need a signature even if the built-in rules call them benign.
	Signed []string

	// What it asks for.
	Role        op.Role // of the signatures; empty: any role that may sign the operation
	Threshold   int     // different people, 1 to MaxThreshold
	Touch       op.Touch
	CoolOff     time.Duration // between the last signature and the step, in whole seconds
	Window      *op.Window    // when the step may run; nil: always
	MaxValidity time.Duration // of the payload; 0: the policy's
	NoPasskey   bool          // no passkey's signature counts
	Apart       bool          // no requester's signature counts; see People
	Single      bool          // no batch counts; each request is signed alone
}

// matches reports whether a rule applies to a step. The step is one that the rule
// names, or it removes a label that the rule uses.
func (r Rule) matches(s Subject) bool {
	if !match(r.Target, s.Target.String()) || !r.covers(s.Labels) {
		return false
	}
	return r.names(s.Spec) || r.escapes(s)
}

// names reports whether the rule's patterns match the operation.
func (r Rule) names(spec op.Spec) bool {
	if len(r.Signed) == 0 {
		return match(r.Op, spec.Name)
	}
	return slices.ContainsFunc(r.Signed, func(pattern string) bool { return match(pattern, spec.Name) })
}

// escapes reports whether the rule would no longer match the target after the step.
// After that the policy would ask for less.
func (r Rule) escapes(s Subject) bool {
	if len(r.Labels) == 0 {
		return false
	}
	return s.Params.Has(labels) && !r.covers(s.Params.Labels(labels)) || len(r.Signed) > 0 && restores(s.Spec)
}

// restores reports whether a step puts a copy in the place of its target. Some back
// ends then bring the labels of that time back. An agent may restore its own scratch
// without a signature.
func restores(s op.Spec) bool { return s.Copy != "" && s.Identity == op.Renews }

// covers reports whether the labels have everything that the rule asks for.
func (r Rule) covers(observed map[string]string) bool {
	for k, pattern := range r.Labels {
		v, ok := observed[k]
		if !ok || !match(pattern, v) {
			return false
		}
	}
	return true
}

// labels is the parameter that sets all labels of a target.
const labels = "labels"

// speaksOf reports whether the rule can be about a step of that operation.
func (r Rule) speaksOf(spec op.Spec) bool { return r.names(spec) && r.reaches(spec.Kind) }

// reaches reports whether the rule can be about a target of that kind. No rule is about
// a drill, which asks for what the operation asks for that it rehearses.
func (r Rule) reaches(kind string) bool {
	if kind == op.KindDrill {
		return false
	}
	if len(r.Labels) > 0 && !slices.ContainsFunc(op.Catalogue(), func(s op.Spec) bool { return s.Kind == kind && relabels(s) }) {
		return false
	}
	if kind == op.KindTrust {
		return match(r.Target, op.Signers.String())
	}
	return overlap(r.Target, kind+"/?*")
}

// mayMatch reports whether a step of that operation could match the rule, perhaps
// because it removes a label.
func (r Rule) mayMatch(spec op.Spec) bool {
	escape := relabels(spec) || len(r.Signed) > 0 && restores(spec)
	return r.speaksOf(spec) || len(r.Labels) > 0 && escape && r.reaches(spec.Kind)
}

func relabels(s op.Spec) bool {
	p, ok := s.Param(labels)
	return ok && p.Type == op.TLabels
}

// meets reports whether one step could match both rules.
func (r Rule) meets(other Rule) bool {
	both := func(s op.Spec) bool { return r.mayMatch(s) && other.mayMatch(s) }
	if !overlap(r.Target, other.Target) || !slices.ContainsFunc(op.Catalogue(), both) {
		return false
	}
	for k, pattern := range r.Labels {
		if theirs, ok := other.Labels[k]; ok && !overlap(pattern, theirs) {
			return false
		}
	}
	return true
}

// maxPattern bounds a pattern, in characters: twice the longest name.
const maxPattern = 256

// match reports whether all of s fits the pattern. In the pattern * means any text,
// and ? any one character. An empty pattern fits everything.
func match(pattern, s string) bool {
	if pattern == "" {
		return true
	}
	want, text := []rune(pattern), []rune(s)
	star, mark := -1, 0 // the last *; the text that it matches so far ends at mark
	p, i := 0, 0
	for i < len(text) {
		switch {
		case p < len(want) && want[p] == '*':
			star, mark = p, i
			p++
		case p < len(want) && (want[p] == '?' || want[p] == text[i]):
			p++
			i++
		case star >= 0:
			mark++
			p, i = star+1, mark
		default:
			return false
		}
	}
	return strings.Trim(string(want[p:]), "*") == ""
}

// overlap reports whether some text fits both patterns.
func overlap(a, b string) bool {
	if a == "" || b == "" {
		return true
	}
	x, y := []rune(a), []rune(b)
	// fits[j] says whether x[i:] and y[j:] overlap, for the i of its row. The last
	// row is computed first.
	var below []bool
	for i := len(x); i >= 0; i-- {
		fits := make([]bool, len(y)+1)
		for j := len(y); j >= 0; j-- {
			switch {
			case i == len(x) && j == len(y):
				fits[j] = true
			case i < len(x) && x[i] == '*':
				fits[j] = below[j] || j < len(y) && fits[j+1]
			case j < len(y) && y[j] == '*':
				fits[j] = fits[j+1] || i < len(x) && below[j]
			case i < len(x) && j < len(y):
				fits[j] = (x[i] == '?' || y[j] == '?' || x[i] == y[j]) && below[j+1]
			}
		}
		below = fits
	}
	return below[0]
}
