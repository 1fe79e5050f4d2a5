package libvirt

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"gated/internal/base/op"
	"gated/internal/base/refusal"

	golibvirt "github.com/digitalocean/go-libvirt"
)

// undefineAll removes, with the definition, what no other guest could use.
const undefineAll = golibvirt.DomainUndefineManagedSave | golibvirt.DomainUndefineSnapshotsMetadata |
	golibvirt.DomainUndefineCheckpointsMetadata

// undefine returns the flags of what to remove with the definition. The firmware settings go
// only if no other guest uses their file.
func (g *guest) undefine() golibvirt.DomainUndefineFlagsValues {
	if g.takesNVRAM() {
		return undefineAll | golibvirt.DomainUndefineNvram
	}
	return undefineAll | golibvirt.DomainUndefineKeepNvram
}

// destroy refuses a guest with a snapshot that has files of its own: the guest's disks then lie on older files, which a
// destroy would leave.
func (w *work) destroy(context.Context) (action, error) {
	for _, x := range w.guest.snapshots {
		if x.external() {
			return nil, refusal.New(refusal.Conflict, "the snapshot %s of %s has files of its own", x.Name, w.step.Target).
				WithHint("merge it first (virsh blockcommit, virsh snapshot-delete --metadata)")
		}
	}
	if err := w.guest.used.clear(w.guest.domain); err != nil {
		return nil, err
	}
	doomed, along := w.guest.doomed()
	paths := map[string]string{}
	for _, k := range doomed {
		if err := w.guest.used.alone(w.guest.domain, k, along); err != nil {
			return nil, refusal.New(refusal.Conflict, "the disk %s of %s: %v", k.target, w.step.Target, err).
				WithHint("take that out of its definition first")
		}
		keys, err := keysOf(k.path)
		if err != nil {
			return nil, err
		}
		object, path := keys[len(keys)-1], filepath.Clean(k.path)
		if was := paths[object]; was != "" && was != path {
			return nil, refusal.New(refusal.Conflict, "%s has one disk under two names: %s and %s", w.step.Target, was, path)
		}
		paths[object] = path
	}
	return w.destroyNow, nil
}

// doomed are the disks that a destroy deletes, and their targets. It deletes none while not all files of the guest are known, because
// one of them may lie on a disk.
func (g *guest) doomed() (all []disk, targets map[string]bool) {
	targets = map[string]bool{}
	for _, k := range g.disks {
		if k.deletable() && len(g.users[k.target]) == 0 && !g.used.doubtful(g.domain) {
			all, targets[k.target] = append(all, k), true
		}
	}
	return all, targets
}

// destroyNow ends the guest and deletes the volumes that the look saw. It deletes a volume only
// if it is still the same and no other guest uses it. It undefines the domain last, so that the
// guest stays visible as long as a part of it is left.
func (w *work) destroyNow(ctx context.Context) error {
	if w.guest.active {
		if err := w.powerOff(ctx); err != nil {
			return err
		}
	}
	var deleted []string
	done := map[op.StorageID]bool{}
	doomed, along := w.guest.doomed()
	for _, k := range doomed {
		if done[k.id] {
			continue
		}
		done[k.id] = true
		if err := w.deleteVolume(ctx, k, along); err != nil {
			return fmt.Errorf("the disk %s (%s): %w; deleted before: %s", k.target, k.path, err, orElse(strings.Join(deleted, ", "), "none"))
		}
		deleted = append(deleted, k.target)
	}
	if err := w.undefine(ctx); err != nil {
		return fmt.Errorf("%w; disks deleted before: %s", err, orElse(strings.Join(deleted, ", "), "none"))
	}
	w.detail = "cannot be undone; disks deleted: " + orElse(strings.Join(deleted, ", "), "none")
	return nil
}

// undefine removes a guest whose disks are gone. It refuses if the guest has an object that the
// look did not see.
func (w *work) undefine(ctx context.Context) error {
	all, now, err := w.untouched(ctx)
	if err != nil {
		return err
	}
	used, err := usesOf(ctx, w.session, all)
	if err != nil {
		return err
	}
	g := &guest{domain: now, used: used}
	if !sameDisks(now.xml.Disks, w.guest.xml.Disks) || !slices.Equal(staying(now.held), staying(w.guest.held)) {
		return stale("%s has a disk, a directory or a file that was not seen before", w.step.Target)
	}
	return w.do(ctx, func(lv *golibvirt.Libvirt) error { return lv.DomainUndefineFlags(now.Domain, g.undefine()) })
}

// untouched looks again, and finds the guest stopped, and without anything that keptNothing or stopped refuses.
func (w *work) untouched(ctx context.Context) (all []*domain, dom *domain, err error) {
	if all, err = inventory(ctx, w.session); err == nil {
		dom, err = w.stopped(all)
	}
	if err == nil {
		err = w.keptNothing(ctx, dom)
	}
	return all, dom, err
}

// keptNothing refuses a guest that has a snapshot or a saved state that the look did not see. Its disks hold the one, and the
// other would write old data back.
func (w *work) keptNothing(ctx context.Context, now *domain) error {
	var all []snapshotXML
	var err error
	if now.snapshots {
		all, err = snapshotsOf(ctx, w.session, now.Domain)
	}
	if err == nil && (now.saved && !w.guest.saved || !slices.EqualFunc(all, w.guest.snapshots, snapshotXML.is)) {
		err = stale("%s has a snapshot or a saved state that was not seen before", w.step.Target)
	}
	return err
}

// same finds the guest again in a new inventory. It refuses a guest with another name, other
// firmware settings, or another mark, because an operator may have protected it meanwhile.
func (w *work) same(all []*domain) (*domain, error) {
	for _, dom := range all {
		if dom.UUID != w.guest.UUID {
			continue
		}
		if dom.broken != nil {
			return nil, dom.broken
		}
		m, err := dom.xml.mark()
		if err == nil && (dom.Name != w.guest.Name || dom.xml.OS.NVRAM != w.guest.xml.OS.NVRAM || !m.is(w.guest.mark)) {
			err = stale("%s was changed meanwhile", w.step.Target)
		}
		return dom, err
	}
	return nil, stale("%s is gone", w.step.Target)
}

// stopped is same for a step that takes something. It refuses a guest that was started after the look, or after the step
// stopped it: the guest writes now what nobody was shown.
func (w *work) stopped(all []*domain) (*domain, error) {
	dom, err := w.same(all)
	if err == nil && dom.active {
		err = stale("%s was started meanwhile", w.step.Target)
	}
	return dom, err
}

// deleteVolume deletes the volume of a disk that the look saw. The volume must still be the
// same, and only disks in along may use it too.
func (w *work) deleteVolume(ctx context.Context, k disk, along map[string]bool) error {
	if err := w.unused(ctx, k, along); err != nil {
		return err
	}
	return w.long(ctx, func(lv *golibvirt.Libvirt) error { return lv.StorageVolDelete(*k.volume, 0) })
}

// unused refuses a volume that is not the one that the look saw. It also refuses if anything
// uses the volume except this disk and the disks in along.
func (w *work) unused(ctx context.Context, k disk, along map[string]bool) error {
	if _, err := w.seen(ctx, k); err != nil {
		return err
	}
	all, _, err := w.untouched(ctx)
	if err != nil {
		return err
	}
	used, err := usesOf(ctx, w.session, all)
	if err != nil {
		return err
	}
	if err := used.clear(nil); err != nil {
		return err
	}
	return used.alone(w.guest.domain, k, along)
}

// seen looks again at a disk in a pool. It refuses another one than the look saw.
func (w *work) seen(ctx context.Context, k disk) (disk, error) {
	now := disk{target: k.target, path: k.path, format: k.format}
	if err := w.lookUpVolume(ctx, w.session, &now); err != nil {
		return now, err
	}
	id, _, err := identify(now)
	if err == nil && (now.volume == nil || now.volume.Key != k.volume.Key || id != k.id) {
		err = stale("the disk %s of %s is another one than was seen before, or gone", k.target, w.step.Target)
	}
	return now, err
}
