// Package driver is the boundary between gated and the back ends that it guards. A driver looks
// at targets and prepares actions. Run uses a permit and then calls the action.
package driver

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
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

// Backend is a driver that a gate can have several of. The configuration gives it a name, and
// it can report its own health.
type Backend interface {
	Driver
	// Name is the name of the back end: "local", "libvirt", "proxmox", "command".
	Name() string
	// Check reports if the driver can reach the back end, which rights the driver lacks, and
	// which version the back end has. Check changes nothing. It has no error: a failure is a
	// finding.
	Check(ctx context.Context) []Finding
}

// State says how serious a finding is.
type State string

// The states of a finding.
const (
	OK   State = "ok"
	Note State = "note" // works, but the operator should know
	Bad  State = "bad"  // does not work
)

// Finding is one result of a check.
type Finding struct {
	What   string // "reachable", "version", "permission VM.Audit"
	State  State
	Detail string // a sentence for people
	Hint   string // what the operator can do; empty if there is nothing to do
}

// Size writes a number of bytes for people, in units of 1024 (IEC 80000-13): "512 B", "1.5
// GiB".
func Size(n int64) string {
	const units = "KMGTPE"
	if n < 1024 {
		return strconv.FormatInt(n, 10) + " B"
	}
	size, i := float64(n)/1024, 0
	for size >= 1024 && i < len(units)-1 {
		size, i = size/1024, i+1
	}
	return fmt.Sprintf("%.1f %ciB", size, units[i])
}

// Fits refuses a step on a target if Permit.Use would refuse it too. A driver calls it first,
// because its own error would say less about a target that changed. The codes are Conflict,
// StaleTarget and UnknownTarget.
func Fits(step op.Step, now op.Observed) error {
	spec, err := op.Lookup(step.Op)
	t := step.Target
	switch {
	case err != nil:
		return err
	case spec.Creates && now.Present:
		return refusal.New(refusal.Conflict, "%s exists already", t).WithHint("%s", op.HintExists)
	case !spec.Creates && step.Incarnation != "" && step.Incarnation != now.Incarnation:
		return refusal.New(refusal.StaleTarget, "%s is not the one that this step is for (%s)", t, step.Incarnation).
			At(refusal.StageBinding)
	case !spec.Creates && !now.Present:
		return refusal.New(refusal.UnknownTarget, "there is no %s", t)
	case now.Missing != "" && step.State == op.StateAuthorized:
		return refusal.New(refusal.StaleTarget, "%s", now.Missing).At(refusal.StageBinding)
	case now.Missing != "":
		return refusal.New(refusal.UnknownTarget, "%s", now.Missing)
	}
	return nil
}

// Alike refuses, as Conflict, a new guest whose name differs from that of another guest only in case: people read one
// for the other, and on some file systems and networks they are one.
func Alike(t op.Target, others []op.Observed) error {
	for _, o := range others {
		if name := o.Target.Name; name != t.Name && strings.EqualFold(name, t.Name) {
			return refusal.New(refusal.Conflict, "%s differs from %s only in case", t, o.Target).
				WithHint("choose another name, or see gated guests %s", name)
		}
	}
	return nil
}

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
