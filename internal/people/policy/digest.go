package policy

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"gated/internal/base/op"
)

// Digest is the SHA-256, in lower-case hex, of what the policy says. Its place and
// the order of its parts make no difference.
func (p Policy) Digest() string {
	var b strings.Builder
	fmt.Fprintf(&b, "max_validity %s\nscratch_max_age %s\nopen_requests_per_source %d\n", p.MaxValidity, p.ScratchMaxAge, p.OpenPerSource)
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
	for _, role := range slices.Sorted(slices.Values(p.Roles)) {
		fmt.Fprintf(&b, "role %q\n", role)
	}
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
	window := ""
	if r.Window != nil {
		window = r.Window.String()
	}
	fmt.Fprintf(&b, ": %q %d %q %s %q %s\n", r.Role, r.Threshold, r.Touch, r.CoolOff, window, r.MaxValidity)
	return b.String()
}
