package proxmox

import (
	"context"

	"gated/internal/driver"
	"gated/internal/gate"
	"gated/internal/op"
)

// Execute runs the permit's step. The last request of a step that takes time is a
// task of Proxmox VE, whose id it returns as soon as there is one; it waits for
// those before. What it can see will not work it refuses before the permit is used.
func (d *Driver) Execute(ctx context.Context, p gate.Permit) (driver.Result, error) {
	step := p.Step()
	if step.ID == (op.StepID{}) {
		return driver.Result{}, op.Refuse(op.NotAllowed, "there is no permit for this")
	}
	prepare, ok := preparers[step.Op]
	if !ok {
		return driver.Result{}, op.Refuse(op.UnknownOp, "the Proxmox VE driver does not know %q", step.Op)
	}
	spec, err := op.Lookup(step.Op)
	if err == nil {
		err = spec.Check(step.Target, step.Params)
	}
	if err != nil {
		return driver.Result{}, err
	}
	g, now, err := d.look(ctx, step.Look())
	if err == nil {
		err = driver.Fits(spec, step, now)
	}
	if err == nil && g != nil {
		err = unlocked(step, g)
	}
	if err != nil {
		return driver.Result{}, err
	}
	act, err := prepare(d, ctx, step, g)
	if err != nil {
		return driver.Result{}, err
	}
	defer act.end()
	if err := p.Use(ctx, now); err != nil {
		return driver.Result{}, err
	}
	if g != nil {
		defer d.seen.forget(g.vmid)
	}
	if g.bare() {
		if g, err = d.guarded(ctx, g); err == nil {
			act, err = prepare(d, ctx, step, g)
		}
		if err != nil {
			return driver.Result{}, err
		}
		defer act.end()
	}
	return act.do(ctx)
}

// unlocked refuses, for now, a guest that Proxmox VE is busy with. One that was
// suspended to disk has a lock that its start ends.
func unlocked(step op.Step, g *guest) error {
	if g.lock == "" || g.lock == "suspended" && step.Op == "guest.start" {
		return nil
	}
	return op.Refuse(op.Unavailable, "%s is locked in Proxmox VE: %s", step.Target, op.Shown(g.lock)).
		WithHint("it is tried again; a lock that stays is looked into on the node")
}

// action does a step's work after its permit was used.
type action struct {
	do  func(context.Context) (driver.Result, error)
	end func() // lets go of what the preparer took
}

func does(fn func(context.Context) (driver.Result, error)) action {
	return action{do: fn, end: func() {}}
}

// asTask is the action of one request that begins a task.
func (d *Driver) asTask(what, method, path string, v values) action {
	return does(func(ctx context.Context) (driver.Result, error) {
		task, err := d.api.start(ctx, method, path, v)
		return driver.Result{Task: task}, worked(what, err)
	})
}

// already is the action of a step whose wish is true.
func already(detail string) action {
	return does(func(context.Context) (driver.Result, error) { return driver.Result{Detail: detail}, nil })
}

type preparer func(*Driver, context.Context, op.Step, *guest) (action, error)

// preparers check what a step needs, without changing anything, and return what
// does it. The guest is nil for a step that makes one.
var preparers = map[string]preparer{
	"guest.create":          (*Driver).prepareCreate,
	"guest.clone":           (*Driver).prepareClone,
	"guest.start":           (*Driver).prepareStart,
	"guest.stop":            (*Driver).prepareStop,
	"guest.restart":         (*Driver).prepareRestart,
	"guest.set-config":      (*Driver).prepareSetConfig,
	"guest.snapshot":        (*Driver).prepareSnapshot,
	"guest.snapshot-delete": (*Driver).prepareSnapshotDelete,
	"guest.restore":         (*Driver).prepareRestore,
	"guest.disk-create":     (*Driver).prepareDiskCreate,
	"guest.disk-resize":     (*Driver).prepareDiskResize,
	"guest.disk-detach":     (*Driver).prepareDiskDetach,
	"guest.disk-delete":     (*Driver).prepareDiskDelete,
	"guest.backup":          (*Driver).prepareBackup,
	"guest.backup-restore":  (*Driver).prepareBackupRestore,
	"guest.backup-delete":   (*Driver).prepareBackupDelete,
	"guest.destroy":         (*Driver).prepareDestroy,
}
