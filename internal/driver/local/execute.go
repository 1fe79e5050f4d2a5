package local

import (
	"context"
	"errors"

	"gated/internal/crashpoint"
	"gated/internal/driver"
	"gated/internal/op"

	"golang.org/x/sys/unix"
)

// Prepare locks the name of the guest, and refuses what it can see will not work.
// Its action runs to its end; there is never a task.
func (d *Driver) Prepare(ctx context.Context, step op.Step, cleanup func(func())) (op.Observed, driver.Action, error) {
	now, do, err := d.prepare(ctx, step, cleanup)
	return now, driver.Does(do), err
}

func (d *Driver) prepare(ctx context.Context, step op.Step, cleanup func(func())) (
	now op.Observed, do driver.Work, err error) {
	prepare, ok := preparers[step.Op]
	if !ok {
		return now, nil, op.Refuse(op.UnknownOp, "the local driver does not know %q", step.Op)
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
		// If the step turns out to need a signature, operators see what it takes.
		now.Facts = d.facts(ctx, g)
	}
	return now, func(ctx context.Context) (r driver.Result, err error) {
		err = act(ctx, &r)
		crashpoint.Here(crashpoint.Executed)
		return r, worded(err)
	}, nil
}

// action does a step's work after its permit was used, and may say in the result what was done.
type action func(context.Context, *driver.Result) error

// preparers check what a step needs, without changing anything, and return what
// does it. The guest is nil for a step that makes one.
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

// worded marks what may go away by itself. Everything else failed and left the
// target as it was, unless the action itself said Unknown.
func worded(err error) error {
	for _, passing := range []error{unix.ENOSPC, unix.EDQUOT, unix.EMFILE, unix.ENFILE, unix.ENOMEM, unix.EAGAIN,
		context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, passing) && !driver.IsUnknown(err) {
			return driver.Transient(err)
		}
	}
	return err
}
