package proxmox

import (
	"context"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver"
)

// Prepare refuses a step that cannot work. If the last request of a step takes long, it is a
// task of Proxmox VE. The action returns the task's id at once, and waits for the tasks before
// it.
func (d *Driver) Prepare(ctx context.Context, step op.Step, cleanup func(func())) (now op.Observed, run driver.Action, err error) {
	prepare, ok := preparers[step.Op]
	if !ok {
		return now, run, refusal.New(refusal.UnknownOp, "the Proxmox VE driver does not know %q", step.Op)
	}
	cleanup(d.working.begin(step.Target.Name))
	g, now, err := d.look(ctx, step.Look())
	if err == nil {
		err = driver.Fits(step, now)
	}
	if err == nil && g != nil {
		err = unlocked(step, g)
	}
	if err != nil {
		return now, run, err
	}
	act, err := prepare(d, ctx, step, g)
	if act.end != nil {
		cleanup(act.end)
	}
	return now, driver.Does(func(ctx context.Context) (driver.Result, error) {
		if g != nil {
			defer d.seen.forget(g.vmid)
		}
		if g.bare() {
			guarded, err := d.guarded(ctx, g)
			if err == nil {
				act, err = prepare(d, ctx, step, guarded)
			}
			if err != nil {
				return driver.Result{}, err
			}
		}
		return act.do(ctx)
	}), err
}

// unlocked refuses, for now, a guest that Proxmox VE is working on. A guest suspended to disk
// has a lock too, which its start removes.
func unlocked(step op.Step, g *guest) error {
	if g.lock == "" || g.lock == "suspended" && step.Op == "guest.start" {
		return nil
	}
	return refusal.New(refusal.Unavailable, "%s is locked in Proxmox VE: %s", step.Target, op.Shown(g.lock)).
		WithHint("it is tried again; a lock that stays is looked into on the node")
}

// action does a step's work after its permit was used.
type action struct {
	do  driver.Work
	end func() // releases what the preparer reserved; nil if that is nothing
}

func does(fn driver.Work) action {
	return action{do: fn}
}

// asTask is the action of a single request that begins a task.
func (d *Driver) asTask(what, method, path string, v values) action {
	return does(func(ctx context.Context) (driver.Result, error) {
		task, err := d.api.start(ctx, method, path, v)
		return driver.Result{Task: task}, worked(what, err)
	})
}

// already is the action of a step that has nothing to change.
func already(detail string) action {
	return does(func(context.Context) (driver.Result, error) { return driver.Result{Detail: detail}, nil })
}

type preparer func(*Driver, context.Context, op.Step, *guest) (action, error)

// preparers check what a step needs and change nothing. They return the action of the step. The
// guest is nil for a step that makes one.
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
