// Package policy holds what an operator's configuration may ask for beyond the
// built-in rules. It can only tighten: every value has a built-in bound that
// Validate enforces.
package policy

import (
	"time"

	"gated/internal/op"
)

// Built-in bounds. A configuration may go below them, never above.
const (
	// MaxValidity bounds how long a payload may be valid (protocol section 1).
	MaxValidity = 24 * time.Hour
	// ScratchMaxAge bounds how long what was recorded as scratch stays scratch.
	ScratchMaxAge = 24 * time.Hour
	// OpenPerSource bounds the open requests that one requester may cause.
	OpenPerSource = 1000
)

// Policy is one consistent set of rules. It is never changed once in use; a
// reload replaces it.
type Policy struct {
	MaxValidity   time.Duration // a payload's longest life
	ScratchMaxAge time.Duration
	OpenPerSource int      // open requests per requester
	Commands      []string // the commands that guests may be given, by name
}

// Default returns the built-in rules: no command may be given to a guest.
func Default() Policy {
	return Policy{MaxValidity: MaxValidity, ScratchMaxAge: ScratchMaxAge, OpenPerSource: OpenPerSource}
}

// Validate refuses, as BadParams, a policy that is looser than the built-in
// one.
func (p Policy) Validate() error {
	switch {
	case p.MaxValidity < time.Second || p.MaxValidity > MaxValidity:
		return op.Refuse(op.BadParams, "max_validity is %s, not 1s to %s", p.MaxValidity, MaxValidity)
	case p.ScratchMaxAge < 0 || p.ScratchMaxAge > ScratchMaxAge:
		return op.Refuse(op.BadParams, "scratch_max_age is %s, not 0s to %s", p.ScratchMaxAge, ScratchMaxAge)
	case p.OpenPerSource < 1 || p.OpenPerSource > OpenPerSource:
		return op.Refuse(op.BadParams, "open_requests_per_source is %d, not 1 to %d", p.OpenPerSource, OpenPerSource)
	}
	return nil
}

// MayCommand reports whether the operator's configuration names the command.
func (p Policy) MayCommand(name string) bool {
	for _, c := range p.Commands {
		if c == name {
			return true
		}
	}
	return false
}

// Requirement is what one destructive step needs before it is authorized.
type Requirement struct {
	Roles       []op.Role     // a signature counts if it was made in one of them
	Threshold   int           // distinct people, each with a key of their own
	MaxValidity time.Duration // longest life of the payload
}

// Requirement returns what the policy asks of an operation.
func (p Policy) Requirement(spec op.Spec) Requirement {
	return Requirement{Roles: spec.Roles, Threshold: 1, MaxValidity: p.MaxValidity}
}

// Stricter returns what satisfies both requirements: the roles that both
// accept, the higher threshold, the shorter life.
func (r Requirement) Stricter(s Requirement) Requirement {
	out := Requirement{Threshold: max(r.Threshold, s.Threshold), MaxValidity: min(r.MaxValidity, s.MaxValidity)}
	for _, role := range r.Roles {
		if s.Accepts(role) {
			out.Roles = append(out.Roles, role)
		}
	}
	return out
}

// Accepts reports whether a signature in that role counts.
func (r Requirement) Accepts(role op.Role) bool {
	for _, x := range r.Roles {
		if x == role {
			return true
		}
	}
	return false
}
