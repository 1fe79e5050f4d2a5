package proxmox

import (
	"context"
	"net/http"
	"regexp"
	"slices"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver"
)

// snapshotName is the form of a snapshot's name that Proxmox VE accepts.
var snapshotName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{1,39}$`)

func (d *Driver) prepareSnapshot(_ context.Context, step op.Step, g *guest) (action, error) {
	name := step.Params.Str("snapshot")
	switch {
	case !snapshotName.MatchString(name) || name == "current":
		return action{}, refusal.New(refusal.BadParams,
			"%q is no name of a snapshot in Proxmox VE ([A-Za-z][A-Za-z0-9_-]{1,39}, not current)", name)
	case slices.ContainsFunc(g.snapshots, func(s snapshot) bool { return s.name == name }):
		return action{}, refusal.New(refusal.Conflict, "%s has a snapshot %s already", step.Target, name)
	}
	return d.asTask("snapshot", http.MethodPost, g.path("snapshot"), values{"snapname": name}), nil
}

func (d *Driver) prepareSnapshotDelete(_ context.Context, step op.Step, g *guest) (action, error) {
	return d.asTask("delete the snapshot", http.MethodDelete, g.path("snapshot", step.Params.Str("snapshot")), nil), nil
}

// prepareRestore rolls back. Disks, settings, tags and Proxmox VE's flag become as they were
// when the snapshot was taken. By Proxmox VE's source, the description stays. If it does not
// stay, the driver restores the mark.
func (d *Driver) prepareRestore(_ context.Context, step op.Step, g *guest) (action, error) {
	return does(func(ctx context.Context) (driver.Result, error) {
		task, err := d.api.start(ctx, http.MethodPost, g.path("snapshot", step.Params.Str("snapshot"), "rollback"), nil)
		if g.marker.there {
			d.owe(task, owed{vmid: g.vmid, before: g})
		}
		return driver.Result{Task: task}, worked("roll back", err)
	}), nil
}
