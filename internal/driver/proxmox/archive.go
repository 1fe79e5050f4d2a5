package proxmox

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"gated/internal/driver"
	"gated/internal/op"
)

func (d *Driver) prepareBackup(_ context.Context, step op.Step, g *guest) (action, error) {
	if err := d.backsUp(); err != nil {
		return action{}, err
	}
	// Without remove=0, vzdump prunes by the storage's retention.
	remove := "0"
	if step.Params.Bool("rotate") {
		remove = "1"
	}
	return d.asTask("back up", http.MethodPost, path("nodes", g.node, "vzdump"),
		values{"vmid": fmt.Sprint(g.vmid), "storage": d.cfg.BackupStorage, "mode": "snapshot", "remove": remove}), nil
}

func (d *Driver) backsUp() error {
	if d.cfg.BackupStorage == "" {
		return op.Refuse(op.UnknownOp, "the configuration names no storage for backups").WithHint("set proxmox.backup_storage in gated.yaml")
	}
	return nil
}

// archiveOf finds the backup of a step.
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
		return backup{}, op.Refuse(op.UnknownTarget, "%s has no backup %s", step.Target, step.Params.Str("backup"))
	}
	return b, nil
}

// prepareBackupRestore overwrites: force with an archive deletes the guest's disks
// first, and its configuration is the one of the backup then.
func (d *Driver) prepareBackupRestore(ctx context.Context, step op.Step, g *guest) (action, error) {
	b, err := d.archiveOf(ctx, step, g)
	if err != nil {
		return action{}, err
	}
	switch {
	case b.kind != "" && b.kind != g.kind:
		return action{}, op.Refuse(op.BadParams, "%s is a backup of another kind of guest", b.name)
	case g.status != Stopped:
		return action{}, op.Refuse(op.Conflict, "%s runs", step.Target).WithHint("stop it first")
	}
	v := values{"vmid": fmt.Sprint(g.vmid), "force": "1", "protection": "1"}
	if g.kind == lxc {
		// Of a machine, the archive says where its disks were; a container's go to the
		// storage local where nothing is said.
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
	if b.protected {
		return action{}, op.Refuse(op.Conflict, "%s is protected in Proxmox VE", b.name).WithHint("take the protection off there")
	}
	return d.asTask("delete the backup", http.MethodDelete,
		path("nodes", g.node, "storage", d.cfg.BackupStorage, "content", b.volume), nil), nil
}
