package policy

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"gated/internal/base/op"
)

// Bounds of BreakGlass.
const (
	// MinDelay is the least time in which an operator can stop a break-glass step.
	MinDelay = time.Minute
	// MaxIncidents bounds BreakGlass.AtMost.
	MaxIncidents = 16
	// MaxBreakGlassOps bounds the patterns of BreakGlass.Ops.
	MaxBreakGlassOps = 32
)

// BreakGlass is the way for the night on which no operator can sign: so many people sign as breakglass, and no other
// signature is needed. The step then waits, and any operator can stop it. What rules ask of keys and times
// holds as ever; how many people they ask for, in which roles, and that they did not ask for the step, does not.
type BreakGlass struct {
	Where     string        // "gated.yaml:12", for people
	Ops       []string      // patterns like Rule.Op for the operations, at least one
	Threshold int           // different people, 1 to MaxThreshold
	Delay     time.Duration // between the last signature and the step, in whole seconds, at least MinDelay
	AtMost    int           // incidents that may be open at a time, 1 to MaxIncidents
}

// reaches reports whether the way may be open for an operation. It never is for a change of signers, nor for the review
// of what it was used for.
func (b *BreakGlass) reaches(spec op.Spec) bool {
	return b != nil && breakable(spec) && slices.ContainsFunc(b.Ops, func(pattern string) bool { return match(pattern, spec.Name) })
}

// breakable reports whether break-glass may be for an operation. A drill has the way of what it rehearses.
func breakable(spec op.Spec) bool {
	return spec.Kind != op.KindTrust && spec.Kind != op.KindIncident && spec.Kind != op.KindDrill
}

// way is the way itself.
func (b *BreakGlass) way() op.Way {
	return op.Way{Name: op.WayBreakGlass, Delay: b.Delay,
		Demands: []op.Demand{{Rule: b.Where, Roles: []op.Role{op.BreakGlass}, Threshold: b.Threshold}}}
}

// onBreakGlass is what a rule asks of each signature as breakglass.
func (r Rule) onBreakGlass() op.Demand {
	return op.Demand{Rule: r.Where, Roles: []op.Role{op.BreakGlass}, Threshold: 1, Touch: r.Touch, NoPasskey: r.NoPasskey}
}

// Fault returns the first fault of the section, or nil. Its Rule means nothing.
func (b *BreakGlass) Fault(p Policy) *Fault {
	switch {
	case b == nil:
		return nil
	case b.Threshold < 1 || b.Threshold > MaxThreshold:
		return fault("threshold", "the threshold is %d, not 1 to %d", b.Threshold, MaxThreshold)
	case b.Delay < MinDelay || b.Delay%time.Second != 0:
		return fault("delay", "the delay is %s, not %s or more in whole seconds: operators need time to stop a step", b.Delay, MinDelay)
	case b.Delay >= p.MaxValidity:
		return fault("delay", "the delay of %s is no shorter than the policy's max_validity of %s: nothing could ever run", b.Delay, p.MaxValidity)
	case b.AtMost < 1 || b.AtMost > MaxIncidents:
		return fault("at_most", "at_most is %d, not 1 to %d", b.AtMost, MaxIncidents)
	case len(b.Ops) == 0 || len(b.Ops) > MaxBreakGlassOps:
		return fault("ops", "ops has %d patterns, not 1 to %d", len(b.Ops), MaxBreakGlassOps)
	}
	for i, s := range b.Ops {
		if s == "" || slices.Contains(b.Ops[:i], s) {
			return fault("ops", "the pattern %q is empty or there twice", s)
		}
		if f := pattern("ops", s, ""); f != nil {
			return f
		}
		if !slices.ContainsFunc(op.Catalogue(), func(spec op.Spec) bool { return breakable(spec) && match(s, spec.Name) }) {
			return fault("ops", "the pattern %q matches no operation that break-glass can be for; gated ops lists them, and changes of signers are for recovery alone", s)
		}
	}
	for _, r := range p.Rules {
		both := func(spec op.Spec) bool { return b.reaches(spec) && r.mayMatch(spec) }
		if r.MaxValidity > 0 && b.Delay >= r.MaxValidity && slices.ContainsFunc(op.Catalogue(), both) {
			return fault("delay", "the delay of %s is no shorter than the max_validity of %s at %s: what that matches could never run", b.Delay, r.MaxValidity, r.Where)
		}
	}
	return nil
}

// unmeetable is Unmeetable for the section.
func (b *BreakGlass) unmeetable(of func(role op.Role, touch op.Touch, noPasskey bool) []string) []string {
	if b == nil {
		return nil
	}
	could := func(role op.Role) []string { return of(role, op.TouchNone, false) }
	if n := people([]op.Role{op.BreakGlass}, could); n < b.Threshold {
		return []string{fmt.Sprintf("%s: break-glass needs %d in the role %s, and %d could sign", b.Where, b.Threshold, op.BreakGlass, n)}
	}
	return nil
}

// text is the one spelling of the section, and empty without one, so that digests of earlier programs stay.
func (b *BreakGlass) text() string {
	if b == nil {
		return ""
	}
	return fmt.Sprintf("break-glass %d %s %d for %q\n", b.Threshold, b.Delay, b.AtMost, strings.Join(slices.Sorted(slices.Values(b.Ops)), " "))
}
