// Package driver is the boundary between gated and the back ends that it guards. A driver looks
// at targets and prepares actions. Run uses a permit and then calls the action.
package driver

import (
	"context"
	"errors"

	"gated/internal/base/op"
	"gated/internal/gate"
)

// Driver is one back end for the targets of one kind.
type Driver interface {
	op.Observer

	// Kind is the kind of the driver's targets.
	Kind() string

	// List looks at every target that exists. After an error the gate knows nothing about any
	// target and plans nothing. But *Incomplete comes with the targets that the driver saw.
	// Neither the caller nor the driver changes a returned list.
	List(ctx context.Context) ([]op.Observed, error)

	Preparer

	// Task asks the back end once for the state of a task.
	Task(ctx context.Context, task string) (Progress, error)
}

// Result is what an action returns beside its error.
type Result struct {
	Task   string // the back end's id of work that goes on; empty if the work is done
	Detail string // what the action did, a sentence for people; may be empty
	Output string // what the work printed, at most MaxOutput bytes; failed work may have output too
}

// Work does a step. If necessary, its error is marked by Transient or Unknown. Any other error
// means that the step failed and left the target as it was.
type Work func(context.Context) (Result, error)

// MaxOutput is the most bytes that the gate keeps of a step's output.
const MaxOutput = gate.MaxOutput

// Progress is the state of a back end's task.
type Progress struct {
	Done bool
	Err  error // the error of a task that is done
}

type kind struct {
	error
	transient, unknown bool
}

func (k kind) Unwrap() error { return k.error }

// Transient marks an error that may go away by itself. The gate tries a benign step again.
func Transient(err error) error { return kind{error: err, transient: true} }

// Unknown marks an error that leaves open if the work was done. A destructive step then ends as
// interrupted, and the gate never runs it again.
func Unknown(err error) error { return kind{error: err, unknown: true} }

// IsTransient reports whether err was marked by Transient.
func IsTransient(err error) bool { var k kind; return errors.As(err, &k) && k.transient }

// IsUnknown reports whether err was marked by Unknown.
func IsUnknown(err error) bool { var k kind; return errors.As(err, &k) && k.unknown }
