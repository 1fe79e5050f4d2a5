package proxmox

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver"
)

func (d *Driver) prepareDiskCreate(_ context.Context, step op.Step, g *guest) (action, error) {
	key := step.Params.Str("disk")
	switch {
	case !isDisk(g.kind, key) || key == "rootfs" || key == "efidisk0" || key == "tpmstate0":
		names := map[string]string{qemu: "scsi0 to scsi30, virtio0 to virtio15, sata0 to sata5, ide0 to ide3", lxc: "mp0 to mp255"}[g.kind]
		return action{}, refusal.New(refusal.BadParams, "%q is no disk that can be added: %s", key, names)
	case slices.ContainsFunc(g.drives, func(x drive) bool { return x.key == key }):
		return action{}, refusal.New(refusal.Conflict, "%s has %s already", step.Target, key)
	case d.cfg.Storage == "":
		return action{}, refusal.New(refusal.BadParams, "the configuration names no storage for new disks").
			WithHint("set proxmox.storage in gated.yaml")
	}
	value := d.cfg.Storage + ":" + allocation(step.Params.Int("size"))
	if g.kind == qemu {
		return d.asTask("add the disk", http.MethodPost, g.path("config"), values{key: value, "digest": g.digest}), nil
	}
	// Only PUT changes a container's configuration, and it makes no task. Proxmox VE accepts no
	// new mount point for a protected container.
	return d.without(g, func(ctx context.Context, g *guest) (driver.Result, error) {
		return driver.Result{}, worked("add the mount point", d.configure(ctx, g, values{key: value + ",mp=/mnt/" + key}))
	}), nil
}

func (d *Driver) prepareDiskResize(_ context.Context, step op.Step, g *guest) (action, error) {
	disk, _ := g.drive(step.Params.Str("disk"))
	wished := step.Params.Int("size") * mebibyte
	switch {
	case disk.size == 0 || unusedDisk.MatchString(disk.key):
		return action{}, refusal.New(refusal.BadParams, "Proxmox VE does not say how large %s is", disk.key)
	case wished < disk.size:
		return action{}, refusal.New(refusal.BadParams, "%s is %s, and Proxmox VE makes no disk smaller", disk.key,
			amount(disk.size)).
			WithHint("add a smaller disk and copy what is on it")
	case wished == disk.size:
		return already("it has that size already"), nil
	}
	return d.asTask("resize", http.MethodPut, g.path("resize"),
		values{"disk": disk.key, "size": resized(step.Params.Int("size")), "digest": g.digest}), nil
}

// prepareDiskDetach makes the disk an unused disk of the same guest.
func (d *Driver) prepareDiskDetach(_ context.Context, step op.Step, g *guest) (action, error) {
	key := step.Params.Str("disk")
	if key == "rootfs" || unusedDisk.MatchString(key) {
		return action{}, refusal.New(refusal.BadParams, "%s cannot be taken off", key)
	}
	return d.without(g, func(ctx context.Context, g *guest) (driver.Result, error) {
		unused, _, err := d.detach(ctx, g, key)
		if err != nil {
			return driver.Result{}, err
		}
		return driver.Result{Detail: "it is " + unused + " of the guest now, with all that is on it"}, nil
	}), nil
}

// prepareDiskDelete deletes a disk with its content. In Proxmox VE, to delete scsi0 only
// detaches it, and to delete unused0 deletes it. For an attached disk the action does both.
func (d *Driver) prepareDiskDelete(_ context.Context, step op.Step, g *guest) (action, error) {
	key := step.Params.Str("disk")
	if key == "rootfs" {
		return action{}, refusal.New(refusal.BadParams, "a container's root cannot be deleted alone")
	}
	disk, _ := g.drive(key)
	return d.without(g, func(ctx context.Context, g *guest) (driver.Result, error) {
		if unusedDisk.MatchString(key) {
			return d.deleteUnused(ctx, g, key, disk.volume)
		}
		unused, now, err := d.detach(ctx, g, key)
		if err != nil {
			return driver.Result{}, err
		}
		return d.deleteUnused(ctx, now, unused, disk.volume)
	}), nil
}

// detach takes a disk off and returns its new name. If a running guest cannot release the disk,
// detach takes the change back, and nothing changed.
func (d *Driver) detach(ctx context.Context, g *guest, key string) (string, *guest, error) {
	disk, ok := g.drive(key)
	if !ok {
		return "", nil, refusal.New(refusal.StaleTarget, "the guest has no %s any more", key)
	}
	if err := d.configure(ctx, g, values{"delete": key}); err != nil {
		return "", nil, worked("detach", err)
	}
	now, err := d.details(ctx, g.row)
	if err != nil {
		return "", nil, driver.Unknown(err)
	}
	attached := slices.ContainsFunc(now.drives, func(x drive) bool { return x.volume == disk.volume })
	if attached {
		if err := d.configure(ctx, now, values{"revert": key}); err != nil {
			return "", nil, driver.Unknown(errors.New("the guest runs and does not let go of the disk; it will when it stops"))
		}
		if now.status == "stopped" {
			return "", nil, refusal.New(refusal.Conflict, "Proxmox VE did not take %s off, though the guest is stopped", key).
				WithHint("look at the guest's log of tasks in Proxmox VE")
		}
		return "", nil, refusal.New(refusal.Conflict, "the guest runs and does not let go of %s", key).
			WithHint("stop it first")
	}
	for _, x := range now.unused {
		if x.volume == disk.volume {
			return x.key, now, nil
		}
	}
	return "", nil, driver.Unknown(errors.New("the disk is detached, and the guest does not have it as an unused one"))
}

// deleteUnused deletes an unused disk if it still has the expected volume.
func (d *Driver) deleteUnused(ctx context.Context, g *guest, key, volume string) (driver.Result, error) {
	if disk, ok := g.drive(key); !ok || disk.volume != volume {
		return driver.Result{}, refusal.New(refusal.StaleTarget, "%s of the guest is not %s any more", key, volume)
	}
	if err := d.configure(ctx, g, values{"delete": key}); err != nil {
		return driver.Result{}, worked("delete the disk", err)
	}
	now, err := d.details(ctx, g.row)
	if err != nil {
		return driver.Result{}, driver.Unknown(err)
	}
	if slices.Contains(now.volumes(), volume) {
		return driver.Result{}, refusal.New(refusal.Internal,
			"Proxmox VE says that the disk is deleted, but the guest still has %s", strings.TrimSpace(volume))
	}
	return driver.Result{}, nil
}
