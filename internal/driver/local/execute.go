package local

import (
	"context"
	"errors"

	"gated/internal/crashpoint"
	"gated/internal/driver"
	"gated/internal/gate"
	"gated/internal/op"

	"golang.org/x/sys/unix"
)

// Execute runs the permit's step to its end; there is never a task. What it can
// see will not work it refuses before the permit is used.
func (d *Driver) Execute(ctx context.Context, p gate.Permit) (driver.Result, error) {
	return driver.Result{}, d.execute(ctx, p)
}

// permit is what Execute needs of a gate.Permit.
type permit interface {
	Step() op.Step
	Use(ctx context.Context, now op.Observed) error
}

func (d *Driver) execute(ctx context.Context, p permit) error {
	step := p.Step()
	if step.ID == (op.StepID{}) {
		return op.Refuse(op.NotAllowed, "there is no permit for this")
	}
	prepare, ok := preparers[step.Op]
	if !ok {
		return op.Refuse(op.UnknownOp, "the local driver does not know %q", step.Op)
	}
	spec, err := op.Lookup(step.Op)
	if err == nil {
		err = spec.Check(step.Target, step.Params)
	}
	if err != nil {
		return err
	}
	defer d.names.lock(step.Target.Name)()

	g, now, err := d.look(step.Target)
	if err != nil {
		return err
	}
	if g != nil {
		defer g.close()
	}
	if err := driver.Fits(spec, step, now); err != nil {
		return err
	}
	act, err := prepare(d, ctx, step, g)
	if err != nil {
		return err
	}
	if g != nil && takesData[step.Op] {
		// If the step turns out to need a signature, operators see what it takes.
		now.Facts = d.facts(ctx, g)
	}
	if err := p.Use(ctx, now); err != nil {
		return err
	}
	err = act(ctx)
	crashpoint.Here(crashpoint.Executed)
	return worded(err)
}

// action does a step's work after its permit was used.
type action func(context.Context) error

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
