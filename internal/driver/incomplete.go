package driver

import (
	"errors"

	"gated/internal/op"
)

// Incomplete is the error of a List that comes with what could be seen: of a
// target that is not in that list nothing is known. Whoever does not tell it from
// another error takes it that nothing is known of any.
type Incomplete struct {
	Why string // a sentence for people, that names what is away
}

// Error returns why.
func (e *Incomplete) Error() string { return e.Why }

// Unwrap says to callers that it may go away.
func (e *Incomplete) Unwrap() error {
	return op.Refuse(op.Unavailable, "%s", e.Why).WithHint("gated status and gated doctor say what is the matter with it")
}

// Missing returns why err leaves open whether a target exists that was not
// listed. It is empty for nil and for every other error.
func Missing(err error) string {
	var e *Incomplete
	if errors.As(err, &e) {
		return e.Why
	}
	return ""
}
