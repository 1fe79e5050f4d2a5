package local

import (
	"context"
	"errors"

	"gated/internal/base/crashpoint"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver"

	"golang.org/x/sys/unix"
)

// Prepare locks the guest's name and refuses a step that cannot work. Its action runs to its
// end and never leaves a task.
func (d *Driver) Prepare(ctx context.Context, step op.Step, cleanup func(func())) (op.Observed, driver.Action, error) {
	now, do, err := d.prepare(ctx, step, cleanup)
	return now, driver.Does(do), err
}

func (d *Driver) prepare(ctx context.Context, step op.Step, cleanup func(func())) (
	now op.Observed, do driver.Work, err error) {
	prepare, ok := preparers[step.Op]
	if !ok {
		return now, nil, refusal.New(refusal.UnknownOp, "the local driver does not know %q", step.Op)
	}
	look := step.Look()
	cleanup(d.names.lock(look.Target.Name, look.TrashName()))
	g, now, err := d.look(look)
	if err != nil {
		return now, nil, err
	}
	if g != nil {
		cleanup(g.close)
	}
	if err := driver.Fits(step, now); err != nil {
		return now, nil, err
	}
	act, err := prepare(d, ctx, step, g)
	if err != nil {
		return now, nil, err
	}
	if g != nil && takesData[step.Op] {
		// If the step needs a signature, the operators see what it would take.
		now.Facts = d.facts(ctx, g)
	}
	return now, func(ctx context.Context) (r driver.Result, err error) {
		err = act(ctx, &r)
		crashpoint.Here(crashpoint.Executed)
		return r, worded(err)
	}, nil
}

// action does a step's work after the permit was used. It may write into the result what it
// did.
type action func(context.Context, *driver.Result) error

// preparers check what a step needs and change nothing. They return the function that does the
// step. The guest is nil for a step that makes one.
var preparers = map[string]func(*Driver, context.Context, op.Step, *guest) (action, error){
	"guest.create":          (*Driver).prepareCreate,
	"guest.undelete":        (*Driver).prepareUndelete,
	"guest.start":           (*Driver).prepareStart,
	"guest.stop":            (*Driver).prepareStop,
	"guest.restart":         (*Driver).prepareRestart,
	"guest.set-config":      (*Driver).prepareSetConfig,
	"guest.snapshot":        (*Driver).prepareSnapshot,
	"guest.snapshot-delete": (*Driver).prepareSnapshotDelete,
	"guest.restore":         (*Driver).prepareRestore,
	"guest.wipe":            (*Driver).prepareWipe,
	"guest.destroy":         (*Driver).prepareDestroy,
}

var takesData = map[string]bool{"guest.destroy": true, "guest.wipe": true, "guest.restore": true,
	"guest.snapshot-delete": true}

// worded marks an error that may go away by itself. Every other error means that the step
// failed and left the target as it was, unless the action said Unknown.
func worded(err error) error {
	for _, passing := range []error{unix.ENOSPC, unix.EDQUOT, unix.EMFILE, unix.ENFILE, unix.ENOMEM, unix.EAGAIN,
		context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, passing) && !driver.IsUnknown(err) {
			return driver.Transient(err)
		}
	}
	return err
}
