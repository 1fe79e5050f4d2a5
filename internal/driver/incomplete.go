package driver

import (
	"errors"

	"gated/internal/base/refusal"
)

// Incomplete is the error of a List that also returns the targets that it saw. The caller knows
// nothing about a target that is not in that list. A caller may treat it as any other error:
// then it knows nothing about all targets.
type Incomplete struct {
	Why string // a sentence for people that names the missing part
}

// Error returns why.
func (e *Incomplete) Error() string { return e.Why }

// Unwrap marks the error as one that may go away: refusal.Unavailable.
func (e *Incomplete) Unwrap() error {
	return refusal.New(refusal.Unavailable, "%s", e.Why).
		WithHint("gated status and gated doctor say what is the matter with it")
}

// Missing returns the reason if err leaves open that a target exists which is not in the list.
// For nil and for every other error it returns an empty string.
func Missing(err error) string {
	var e *Incomplete
	if errors.As(err, &e) {
		return e.Why
	}
	return ""
}
