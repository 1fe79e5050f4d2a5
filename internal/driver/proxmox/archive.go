package proxmox

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver"
)

func (d *Driver) prepareBackup(ctx context.Context, step op.Step, g *guest) (action, error) {
	if err := d.backsUp(); err != nil {
		return action{}, err
	}
	v := values{"vmid": fmt.Sprint(g.vmid), "storage": d.cfg.BackupStorage, "mode": "snapshot"}
	if step.Params.Bool("rotate") {
		v["remove"] = "1"
		return d.asTask("back up", http.MethodPost, path("nodes", g.node, "vzdump"), v), nil
	}
	// Without remove=0, vzdump prunes by the storage's retention. A later backup by another
	// program would count this backup, and prune one of its own for it. The retention neither
	// counts nor prunes a protected backup.
	v["remove"], v["protected"], v["notes-template"] = "0", "1", keptNotes
	all, err := d.backups(ctx, g)
	if err != nil {
		return action{}, err
	}
	kept := 0
	for _, b := range all {
		if b.protected {
			kept++
		}
	}
	if kept >= maxKept {
		return action{}, refusal.New(refusal.OverLimit,
			"%s has %d protected backups, which no retention deletes, and may have %d", step.Target, kept, maxKept).
			WithHint("have an operator sign guest.backup-delete of one, or guest.backup with rotate=true")
	}
	return d.asTask("back up", http.MethodPost, path("nodes", g.node, "vzdump"), v), nil
}

// keptNotes are the notes of a backup that the gate protects from the retention.
const keptNotes = "gated: kept out of the retention"

// maxKept is the most protected backups that a guest may have before one more. It is Proxmox
// VE's own default for a user who may not allocate the storage. Above it, Proxmox VE would make
// a backup and then not protect it.
const maxKept = 5

func (d *Driver) backsUp() error {
	if d.cfg.BackupStorage == "" {
		return refusal.New(refusal.UnknownOp, "the configuration names no storage for backups").
			WithHint("set proxmox.backup_storage in gated.yaml")
	}
	return nil
}

// archiveOf finds the backup that a step names.
func (d *Driver) archiveOf(ctx context.Context, step op.Step, g *guest) (backup, error) {
	if err := d.backsUp(); err != nil {
		return backup{}, err
	}
	all, err := d.backups(ctx, g)
	if err != nil {
		return backup{}, err
	}
	b, ok := backupOf(all, step.Params.Str("backup"))
	if !ok {
		return backup{}, refusal.New(refusal.UnknownTarget, "%s has no backup %s", step.Target, step.Params.Str("backup"))
	}
	return b, nil
}

// prepareBackupRestore overwrites the guest: force with an archive first deletes the guest's
// disks. The guest then has the backup's configuration.
func (d *Driver) prepareBackupRestore(ctx context.Context, step op.Step, g *guest) (action, error) {
	b, err := d.archiveOf(ctx, step, g)
	if err != nil {
		return action{}, err
	}
	switch {
	case b.kind != "" && b.kind != g.kind:
		return action{}, refusal.New(refusal.BadParams, "%s is a backup of another kind of guest", b.name)
	case g.status != Stopped:
		return action{}, refusal.New(refusal.Conflict, "%s runs", step.Target).WithHint("stop it first")
	}
	v := values{"vmid": fmt.Sprint(g.vmid), "force": "1", "protection": "1"}
	if g.kind == lxc {
		// A machine's archive says where its disks were. A container's disks go to the storage
		// "local" if the request names none.
		v["ostemplate"], v["restore"] = b.volume, "1"
		disk, _ := g.drive("rootfs")
		v["storage"], _, _ = strings.Cut(disk.volume, ":")
	} else {
		v["archive"] = b.volume
	}
	return does(func(ctx context.Context) (driver.Result, error) {
		now, err := d.unguard(ctx, g)
		if err != nil {
			return driver.Result{}, err
		}
		task, err := d.api.start(ctx, http.MethodPost, path("nodes", now.node, now.kind), v)
		if err != nil {
			d.guard(ctx, g)
		}
		d.owe(task, owed{vmid: g.vmid, before: g})
		return driver.Result{Task: task}, worked("restore the backup", err)
	}), nil
}

func (d *Driver) prepareBackupDelete(ctx context.Context, step op.Step, g *guest) (action, error) {
	b, err := d.archiveOf(ctx, step, g)
	if err != nil {
		return action{}, err
	}
	if b.protected && b.notes != keptNotes {
		return action{}, refusal.New(refusal.Conflict, "%s is protected in Proxmox VE", b.name).
			WithHint("take the protection off there")
	}
	at := path("nodes", g.node, "storage", d.cfg.BackupStorage, "content", b.volume)
	if !b.protected {
		return d.asTask("delete the backup", http.MethodDelete, at, nil), nil
	}
	return does(func(ctx context.Context) (driver.Result, error) {
		if _, err := d.api.send(ctx, http.MethodPut, at, values{"protected": "0"}); err != nil {
			return driver.Result{}, worked("take the protection off the backup", err)
		}
		task, err := d.api.start(ctx, http.MethodDelete, at, nil)
		if err == nil {
			err = d.wait(ctx, task)
		}
		if err != nil {
			// The backup stays, so the retention must not count it. If this request fails, the
			// look shows it.
			_, _ = d.api.send(context.WithoutCancel(ctx), http.MethodPut, at, values{"protected": "1"})
		}
		return driver.Result{}, worked("delete the backup", err)
	}), nil
}
