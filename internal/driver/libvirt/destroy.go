package libvirt

import (
	"context"
	"fmt"
	"strings"

	"gated/internal/op"

	golibvirt "github.com/digitalocean/go-libvirt"
)

// undefineAll takes with the definition what nobody else could use.
const undefineAll = golibvirt.DomainUndefineManagedSave | golibvirt.DomainUndefineSnapshotsMetadata |
	golibvirt.DomainUndefineCheckpointsMetadata | golibvirt.DomainUndefineNvram

func (w *work) destroy(context.Context) (action, error) {
	for _, x := range w.guest.snapshots {
		if x.external() {
			return nil, op.Refuse(op.Conflict, "the snapshot %s of %s has files of its own", x.Name, w.step.Target).
				WithHint("merge it first (virsh blockcommit, virsh snapshot-delete --metadata)")
		}
	}
	return w.destroyNow, nil
}

// destroyNow ends the guest, deletes the volumes that were seen, each if it is
// still the same and nobody else's, and undefines the domain last: as long as
// something of it is left, the guest is there for everybody to see.
func (w *work) destroyNow(ctx context.Context) error {
	if w.guest.active {
		if err := w.powerOff(ctx); err != nil {
			return err
		}
	}
	var deleted []string
	done := map[op.StorageID]bool{}
	for _, k := range w.guest.disks {
		if !k.deletable() || len(w.guest.users[k.target]) > 0 || done[k.id] {
			continue
		}
		done[k.id] = true
		if err := w.deleteVolume(ctx, k); err != nil {
			return fmt.Errorf("the disk %s (%s): %w; deleted before: %s", k.target, k.path, err, orElse(strings.Join(deleted, ", "), "none"))
		}
		deleted = append(deleted, k.target)
	}
	err := w.do(ctx, func(lv *golibvirt.Libvirt) error { return lv.DomainUndefineFlags(w.guest.Domain, undefineAll) })
	if err != nil && !said(err, golibvirt.ErrNoDomain) { // a transient one is gone already
		return err
	}
	w.detail = "cannot be undone; disks deleted: " + orElse(strings.Join(deleted, ", "), "none")
	return nil
}

// deleteVolume deletes the volume of a disk that was seen, if it still is that
// and no domain uses it.
func (w *work) deleteVolume(ctx context.Context, k disk) error {
	if err := w.unused(ctx, k); err != nil {
		return err
	}
	return w.long(ctx, func(lv *golibvirt.Libvirt) error { return lv.StorageVolDelete(*k.volume, 0) })
}

// unused refuses a volume that is another one than was seen, or that any domain
// but this one uses.
func (w *work) unused(ctx context.Context, k disk) error {
	now := disk{target: k.target, path: k.path, format: k.format}
	if err := w.lookUpVolume(ctx, w.session, &now); err != nil {
		return err
	}
	id, err := identify(now)
	if err != nil {
		return err
	}
	if now.volume == nil || now.volume.Key != k.volume.Key || id != k.id {
		return fmt.Errorf("it is another one than was seen before, or gone")
	}
	all, err := inventory(ctx, w.session)
	if err != nil {
		return err
	}
	used, err := filesOf(ctx, w.session, all)
	if err != nil {
		return err
	}
	if others := used.others(w.guest.domain, k); len(others) > 0 {
		return fmt.Errorf("%s uses it", op.Shown(others[0].Name))
	}
	return nil
}
