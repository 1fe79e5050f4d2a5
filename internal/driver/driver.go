// Package driver is the seam between gated and what it guards. A driver looks
// at targets and prepares actions. Run calls an action after it used a permit.
package driver

import (
	"context"
	"errors"

	"gated/internal/gate"
	"gated/internal/op"
)

// Driver is one back end for the targets of one kind.
type Driver interface {
	op.Observer

	// Kind is the kind of target that the driver answers for.
	Kind() string

	// List looks at every target that exists. An error means that nothing is
	// known of any of them, and nothing is planned; but *Incomplete comes with
	// those that could be seen. What was returned is not changed afterwards, by nobody.
	List(ctx context.Context) ([]op.Observed, error)

	Preparer

	// Task asks the back end once how a task stands.
	Task(ctx context.Context, task string) (Progress, error)
}

// Result is what an action says beside its error.
type Result struct {
	Task   string // the back end's id for work that goes on; empty when the work is done
	Detail string // what was done, a sentence for people; may be empty
	Output string // what the work printed, of at most MaxOutput bytes; also of work that failed
}

// MaxOutput bounds what is kept of the output of a step, in bytes.
const MaxOutput = gate.MaxOutput

// Progress is how a back end's task stands.
type Progress struct {
	Done bool
	Err  error // how it ended, when Done
}

type kind struct {
	error
	transient, unknown bool
}

func (k kind) Unwrap() error { return k.error }

// Transient marks an error that may go away by itself: a benign step is tried
// again.
func Transient(err error) error { return kind{error: err, transient: true} }

// Unknown marks an error after which nobody knows whether the work was done: a
// destructive step ends as interrupted and is never run again.
func Unknown(err error) error { return kind{error: err, unknown: true} }

// IsTransient reports whether err was marked by Transient.
func IsTransient(err error) bool { var k kind; return errors.As(err, &k) && k.transient }

// IsUnknown reports whether err was marked by Unknown.
func IsUnknown(err error) bool { var k kind; return errors.As(err, &k) && k.unknown }
