// Package policy has what an operator's configuration may ask for beyond the
// built-in rules. Every value has a built-in bound that Validate enforces. What
// guards data can only be stricter.
package policy

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// Built-in bounds. A configuration may have lower values, never higher ones.
const (
	// MaxValidity bounds how long a payload may be valid (protocol section 1).
	MaxValidity = 24 * time.Hour
	// ScratchMaxAge bounds how long scratch stays scratch.
	ScratchMaxAge = 24 * time.Hour
	// OpenPerSource bounds the open requests of one requester.
	OpenPerSource = 1000
)

// RejectHolds is how long a rejected wish is refused if the configuration does not
// say. It saves operators' time and guards no data: a repeat would wait for a
// signature again. So a configuration may have a shorter time, or none.
const RejectHolds = time.Hour

// MaxRejectHolds bounds that time.
const MaxRejectHolds = 7 * 24 * time.Hour

// Policy is one consistent set of rules. It never changes in use; a reload replaces
// it.
type Policy struct {
	MaxValidity   time.Duration // a payload's longest life
	ScratchMaxAge time.Duration
	OpenPerSource int                 // open requests per requester
	RejectHolds   time.Duration       // how long a rejected wish of the same caller for the same reason is refused
	Commands      []string            // the commands that guests may run, by name
	CommandGuests map[string][]string // by command: patterns for the names of its guests; none: all guests
	Benign        []string            // the commands of the catalogue that lose nothing, by name
	BenignIf      []string            // the commands whose probe may say that a run loses nothing, by name
	Roles         []op.Role           // the roles that this gate has beside the built-in ones
	Rules         []Rule              // all that match a step apply
	Passkeys      op.Passkeys         // which WebAuthn signatures count; none by default
	People        People              // which accounts belong to whom, for rules with Apart
	BreakGlass    *BreakGlass         // the way without operators; nil for none
}

// Default returns the built-in rules. They allow no command for guests.
func Default() Policy {
	return Policy{MaxValidity: MaxValidity, ScratchMaxAge: ScratchMaxAge, OpenPerSource: OpenPerSource, RejectHolds: RejectHolds}
}

// Validate refuses, as BadParams, a policy that is looser than the built-in
// one.
func (p Policy) Validate() error {
	switch {
	case p.MaxValidity < time.Second || p.MaxValidity > MaxValidity:
		return refusal.New(refusal.BadParams, "max_validity is %s, not 1s to %s", p.MaxValidity, MaxValidity)
	case p.ScratchMaxAge < 0 || p.ScratchMaxAge > ScratchMaxAge:
		return refusal.New(refusal.BadParams, "scratch_max_age is %s, not 0s to %s", p.ScratchMaxAge, ScratchMaxAge)
	case p.OpenPerSource < 1 || p.OpenPerSource > OpenPerSource:
		return refusal.New(refusal.BadParams, "open_requests_per_source is %d, not 1 to %d", p.OpenPerSource, OpenPerSource)
	case p.RejectHolds < 0 || p.RejectHolds > MaxRejectHolds:
		return refusal.New(refusal.BadParams, "reject_holds is %s, not 0s to %s", p.RejectHolds, MaxRejectHolds)
	}
	if err := p.validateRoles(); err != nil {
		return err
	}
	if f := p.Fault(); f != nil {
		return refusal.New(refusal.BadParams, "%s: %s", p.Rules[f.Rule].Where, f.Why)
	}
	if f := p.BreakGlass.Fault(p); f != nil {
		return refusal.New(refusal.BadParams, "%s: %s", p.BreakGlass.Where, f.Why)
	}
	return nil
}

// MayCommand reports whether the operator's configuration names the command for a
// guest of that name.
func (p Policy) MayCommand(name, guest string) bool {
	if !slices.Contains(p.Commands, name) {
		return false
	}
	isFor := p.CommandGuests[name]
	return len(isFor) == 0 || slices.ContainsFunc(isFor, func(pattern string) bool { return match(pattern, guest) })
}

// Harmless reports whether the operator's catalogue says that a command loses
// nothing.
func (p Policy) Harmless(name string) bool { return slices.Contains(p.Benign, name) }

// ProbeSays reports whether the operator's catalogue lets the probe of a command say
// that a run loses nothing.
func (p Policy) ProbeSays(name string) bool { return slices.Contains(p.BenignIf, name) }

// Delays reports whether a rule delays steps after their last signature.
func (p Policy) Delays() bool {
	return slices.ContainsFunc(p.Rules, func(r Rule) bool { return r.CoolOff > 0 || r.Window != nil })
}

// Signs returns the places of the rules that want a signature for a step, whatever
// the built-in rules call the step. There are none if no such rule matches.
func (p Policy) Signs(s Subject) []string {
	var where []string
	for _, r := range p.Rules {
		if len(r.Signed) > 0 && r.matches(s) {
			where = append(where, r.Where)
		}
	}
	return where
}

// Digest is the SHA-256, in lower-case hex, of what the policy says. Its place and
// the order of its parts make no difference.
func (p Policy) Digest() string {
	var b strings.Builder
	fmt.Fprintf(&b, "max_validity %s\nscratch_max_age %s\nopen_requests_per_source %d\nreject_holds %s\n", p.MaxValidity, p.ScratchMaxAge,
		p.OpenPerSource, p.RejectHolds)
	for _, name := range slices.Sorted(slices.Values(p.Commands)) {
		fmt.Fprintf(&b, "command %q\n", name)
	}
	for _, name := range slices.Sorted(maps.Keys(p.CommandGuests)) {
		for _, pattern := range slices.Sorted(slices.Values(p.CommandGuests[name])) {
			fmt.Fprintf(&b, "command %q for %q\n", name, pattern)
		}
	}
	for _, name := range slices.Sorted(slices.Values(p.Benign)) {
		fmt.Fprintf(&b, "benign %q\n", name)
	}
	for _, name := range slices.Sorted(slices.Values(p.BenignIf)) {
		fmt.Fprintf(&b, "benign if its probe says so %q\n", name)
	}
	for _, role := range slices.Sorted(slices.Values(p.Roles)) {
		fmt.Fprintf(&b, "role %q\n", role)
	}
	for _, origin := range slices.Sorted(slices.Values(p.Passkeys.Origins)) {
		fmt.Fprintf(&b, "passkeys of %q\n", origin)
	}
	if p.Passkeys.Synced {
		b.WriteString("synced passkeys\n")
	}
	b.WriteString(p.People.text())
	b.WriteString(p.BreakGlass.text())
	rules := make([]string, len(p.Rules))
	for i, r := range p.Rules {
		rules[i] = r.text()
	}
	slices.Sort(rules)
	b.WriteString(strings.Join(rules, ""))
	return op.SHA256([]byte(b.String()))
}

// text is the one spelling of a rule, without its place in the configuration.
func (r Rule) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "rule %q %q", r.Op, r.Target)
	for _, k := range slices.Sorted(maps.Keys(r.Labels)) {
		fmt.Fprintf(&b, " label %q %q", k, r.Labels[k])
	}
	for _, pattern := range slices.Sorted(slices.Values(r.Signed)) {
		fmt.Fprintf(&b, " signed %q", pattern)
	}
	window := ""
	if r.Window != nil {
		window = r.Window.String()
	}
	single := ""
	if r.Single {
		single = " single" // absent otherwise, so that digests of earlier programs stay
	}
	if r.NoPasskey {
		single += " no passkey"
	}
	if r.Apart {
		single += " not requester"
	}
	fmt.Fprintf(&b, ": %q %d %q %s %q %s%s\n", r.Role, r.Threshold, r.Touch, r.CoolOff, window, r.MaxValidity, single)
	return b.String()
}
