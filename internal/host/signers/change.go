package signers

import (
	"slices"

	"gated/internal/authz"
	"gated/internal/base/op"
	"gated/internal/driver/trust"
)

// Change is what differs between two lists of signers.
type Change struct{ Added, Removed []authz.Listed }

// Compare goes by everything that a line says but for where it stands. A nil
// list has no lines.
func Compare(before, next *authz.Trust) Change {
	left := map[string]int{}
	for _, l := range before.Signers() {
		left[trust.Describe(l)]++
	}
	var c Change
	kept := map[string]int{}
	for _, l := range next.Signers() {
		if d := trust.Describe(l); left[d] > 0 {
			left[d]--
			kept[d]++
		} else {
			c.Added = append(c.Added, l)
		}
	}
	for _, l := range before.Signers() {
		if d := trust.Describe(l); kept[d] > 0 {
			kept[d]--
		} else {
			c.Removed = append(c.Removed, l)
		}
	}
	return c
}

// Lines shows a change to people: + or -, and what a line says without its key.
func (c Change) Lines() []string {
	var out []string
	for _, l := range c.Added {
		out = append(out, "+ "+trust.Describe(l))
	}
	for _, l := range c.Removed {
		out = append(out, "- "+trust.Describe(l))
	}
	if out == nil {
		out = []string{"comments, other namespaces or the order of lines, and no signer"}
	}
	return out
}

// Describe says of a line what people have to know, without its key.
func Describe(l authz.Listed) string { return trust.Describe(l) }

// MayDestroy reports whether a line lists a key for what may lose data or change
// who may sign: as operational, or for recovery, which alone can list others.
func MayDestroy(l authz.Listed) bool {
	return slices.Contains(l.Roles, op.Operational) || slices.Contains(l.Roles, op.Recovery)
}

// SoftwareSigners returns the principals of keys that MayDestroy and need no
// touch, each once, in the list's order.
func SoftwareSigners(listed []authz.Listed) []string {
	var out []string
	for _, l := range listed {
		if l.Software && MayDestroy(l) && !slices.Contains(out, op.ShownName(l.Principal)) {
			out = append(out, op.ShownName(l.Principal))
		}
	}
	return out
}
