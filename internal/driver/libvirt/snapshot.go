package libvirt

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"gated/internal/base/op"
	"gated/internal/base/refusal"

	golibvirt "github.com/digitalocean/go-libvirt"
)

func (w *work) snapshot(context.Context) (action, error) {
	name := w.step.Params.Str("snapshot")
	if err := w.defined(); err != nil {
		return nil, err
	}
	if w.guest.hasSnapshot(name) {
		return nil, refusal.New(refusal.Conflict, "%s has a snapshot %q already", w.step.Target, name)
	}
	disks := 0
	for _, k := range w.guest.disks {
		if k.medium || k.shared {
			continue
		}
		if disks++; k.format != formatQCOW2 {
			return nil, refusal.New(refusal.BadParams, "the disk %s of %s is %s, which holds no snapshots", k.target,
				w.step.Target, orElse(k.format, "of no known format")).
				WithHint("use a template whose format is qcow2")
		}
	}
	if disks == 0 {
		return nil, refusal.New(refusal.BadParams, "%s has no disk that a snapshot could be in", w.step.Target)
	}
	return func(ctx context.Context) error {
		text := fmt.Sprintf("<domainsnapshot><name>%s</name></domainsnapshot>", escape(name))
		return w.long(ctx, func(lv *golibvirt.Libvirt) error {
			_, err := lv.DomainSnapshotCreateXML(w.guest.Domain, text, 0)
			return err
		})
	}, nil
}

// snapshotOf finds the step's snapshot. It refuses a snapshot with files of its own.
func (w *work) snapshotOf() (snapshotXML, golibvirt.DomainSnapshot, error) {
	name := w.step.Params.Str("snapshot")
	for _, x := range w.guest.snapshots {
		if x.Name != name {
			continue
		}
		if x.external() {
			return x, golibvirt.DomainSnapshot{}, refusal.New(refusal.Conflict, "the snapshot %s has files of its own",
				strconv.Quote(name)).
				WithHint("it was made by other hands; virsh blockcommit merges it")
		}
		return x, golibvirt.DomainSnapshot{Name: name, Dom: w.guest.Domain}, nil
	}
	return snapshotXML{}, golibvirt.DomainSnapshot{}, refusal.New(refusal.UnknownTarget, "%s has no snapshot %q",
		w.step.Target, name)
}

// unchanged refuses a guest or a snapshot that changed since the look.
func (w *work) unchanged(ctx context.Context, x snapshotXML) error {
	all, err := inventory(ctx, w.session)
	if err != nil {
		return err
	}
	if _, err := w.same(all); err != nil {
		return err
	}
	found, err := snapshotsOf(ctx, w.session, w.guest.Domain)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(found, x.is) {
		return stale("the snapshot %s of %s is another one than was seen, or gone", strconv.Quote(x.Name), w.step.Target)
	}
	return nil
}

func (w *work) snapshotDelete(context.Context) (action, error) {
	x, snap, err := w.snapshotOf()
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		if err := w.unchanged(ctx, x); err != nil {
			return err
		}
		return w.long(ctx, func(lv *golibvirt.Libvirt) error { return lv.DomainSnapshotDelete(snap, 0) })
	}, nil
}

// rollsBack refuses a restore that would drop a disk from the definition. It also refuses one
// that would change a disk that another guest uses too.
func (w *work) rollsBack(x snapshotXML) error {
	if err := w.guest.used.clear(nil); err != nil {
		return err
	}
	for _, was := range []*definitionXML{x.Domain, x.Inactive} {
		if was == nil && x.Domain != nil {
			continue // the guest was stopped, so there is only one definition
		}
		more, err := w.guest.lacks(was)
		if err != nil {
			return err
		}
		if more != "" {
			return refusal.New(refusal.Conflict, "%s had %s when the snapshot %s was made", w.step.Target, more, strconv.Quote(x.Name)).
				WithHint("a restore would bring that back, too: define the guest as it was then first")
		}
	}
	for _, d := range w.guest.xml.Disks {
		if d.ReadOnly != nil || d.medium() && d.Source == (sourceXML{}) {
			continue
		}
		k, ok := w.guest.diskNamed(d.Target.Dev)
		if !ok {
			return refusal.New(refusal.Conflict, "%s has %s, a floppy or a disk with nothing in it", w.step.Target, op.Shown(d.Target.Dev))
		}
		if err := w.mine(k); err != nil {
			return err
		}
	}
	return w.defined()
}

// stillRollsBack is rollsBack for the guest as it is now, because other hands may have given it a disk, or its disk to another
// guest.
func (w *work) stillRollsBack(ctx context.Context, x snapshotXML) error {
	now, err := w.again(ctx)
	if err != nil {
		return err
	}
	if now.guest.active {
		return stale("%s was started meanwhile", w.step.Target)
	}
	return now.rollsBack(x)
}

// restore puts disks and configuration back. Protection and labels stay as they are, because a
// snapshot must not change them.
func (w *work) restore(context.Context) (action, error) {
	x, snap, err := w.snapshotOf()
	if err == nil {
		err = w.rollsBack(x)
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
		if err := w.unchanged(ctx, x); err != nil {
			return err
		}
		if err := w.stillRollsBack(ctx, x); err != nil {
			return err
		}
		if err := w.long(ctx, func(lv *golibvirt.Libvirt) error { return lv.DomainRevertToSnapshot(snap, 0) }); err != nil {
			return err
		}
		w.detail = "disks, memory and CPUs are those of the snapshot; labels and protection are as before"
		return w.remark(ctx, x)
	}, nil
}

// remark restores the guest's mark if the restore replaced it with the snapshot's. A third mark
// stays, because another caller wrote it meanwhile.
func (w *work) remark(ctx context.Context, x snapshotXML) error {
	now := &domain{Domain: w.guest.Domain}
	active, err := call(ctx, w.session, func(lv *golibvirt.Libvirt) (int32, error) { return lv.DomainIsActive(w.guest.Domain) })
	if err == nil {
		err = now.read(ctx, w.session)
	}
	if err == nil {
		err = now.broken
	}
	if err != nil {
		return err
	}
	w.guest.active = active != 0
	is, err := now.xml.mark()
	if err != nil {
		return err
	}
	for _, was := range []*definitionXML{x.Domain, x.Inactive} {
		if was == nil {
			continue
		}
		if m, err := (domainXML{UUID: was.UUID, Marks: was.Marks}).mark(); err == nil && m.is(is) {
			return w.redefine(ctx, changes{mark: &w.guest.mark}, nil)
		}
	}
	if !is.is(w.guest.mark) {
		w.detail = "disks, memory and CPUs are those of the snapshot; labels and protection are as another program set them meanwhile"
	}
	return nil
}
