package libvirt

import (
	"context"
	"fmt"
	"strconv"

	"gated/internal/op"

	golibvirt "github.com/digitalocean/go-libvirt"
)

func (w *work) snapshot(context.Context) (action, error) {
	name := w.step.Params.Str("snapshot")
	if err := w.defined(); err != nil {
		return nil, err
	}
	if w.guest.hasSnapshot(name) {
		return nil, op.Refuse(op.Conflict, "%s has a snapshot %q already", w.step.Target, name)
	}
	disks := 0
	for _, k := range w.guest.disks {
		if k.medium || k.shared {
			continue
		}
		if disks++; k.format != formatQCOW2 {
			return nil, op.Refuse(op.BadParams, "the disk %s of %s is %s, which holds no snapshots", k.target, w.step.Target, orElse(k.format, "of no known format")).
				WithHint("use a template whose format is qcow2")
		}
	}
	if disks == 0 {
		return nil, op.Refuse(op.BadParams, "%s has no disk that a snapshot could be in", w.step.Target)
	}
	return func(ctx context.Context) error {
		text := fmt.Sprintf("<domainsnapshot><name>%s</name></domainsnapshot>", escape(name))
		return w.long(ctx, func(lv *golibvirt.Libvirt) error {
			_, err := lv.DomainSnapshotCreateXML(w.guest.Domain, text, 0)
			return err
		})
	}, nil
}

// snapshotOf finds the step's snapshot, and refuses one with files of its own.
func (w *work) snapshotOf() (golibvirt.DomainSnapshot, error) {
	name := w.step.Params.Str("snapshot")
	for _, x := range w.guest.snapshots {
		if x.Name == name && x.external() {
			return golibvirt.DomainSnapshot{}, op.Refuse(op.Conflict, "the snapshot %s has files of its own", strconv.Quote(name)).
				WithHint("it was made by other hands; virsh blockcommit merges it")
		}
	}
	return golibvirt.DomainSnapshot{Name: name, Dom: w.guest.Domain}, nil
}

func (w *work) snapshotDelete(context.Context) (action, error) {
	snap, err := w.snapshotOf()
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		return w.long(ctx, func(lv *golibvirt.Libvirt) error { return lv.DomainSnapshotDelete(snap, 0) })
	}, nil
}

// restore puts disks and configuration back. Protection and labels are not the
// snapshot's to give: they stay as they are.
func (w *work) restore(context.Context) (action, error) {
	snap, err := w.snapshotOf()
	if err == nil {
		err = w.defined()
	}
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		if w.guest.active {
			if err := w.powerOff(ctx); err != nil {
				return err
			}
		}
		if err := w.long(ctx, func(lv *golibvirt.Libvirt) error { return lv.DomainRevertToSnapshot(snap, 0) }); err != nil {
			return err
		}
		w.detail = "disks, memory and CPUs are those of the snapshot; labels and protection are as before"
		active, err := call(ctx, w.session, func(lv *golibvirt.Libvirt) (int32, error) { return lv.DomainIsActive(w.guest.Domain) })
		if err != nil {
			return err
		}
		w.guest.active = active != 0
		return w.redefine(ctx, changes{mark: &w.guest.mark})
	}, nil
}
