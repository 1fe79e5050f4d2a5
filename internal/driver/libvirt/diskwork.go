package libvirt

import (
	"context"
	"fmt"
	"regexp"

	golibvirt "github.com/digitalocean/go-libvirt"

	"gated/internal/base/refusal"
)

// newDiskName is the form of a new disk's name, because the driver puts new disks on the virtio
// bus.
var newDiskName = regexp.MustCompile(`^vd[a-z]{1,2}$`)

func (w *work) diskCreate(ctx context.Context) (action, error) {
	name := w.step.Params.Str("disk")
	if !newDiskName.MatchString(name) {
		return nil, refusal.New(refusal.BadParams, "%q is not the name of a new disk (vda to vdzz)", name)
	}
	for _, x := range append(w.guest.xml.Disks, w.guest.live.Disks...) {
		if x.Target.Dev == name {
			return nil, refusal.New(refusal.Conflict, "%s has a disk %s already", w.step.Target, name)
		}
	}
	if err := w.defined(); err != nil {
		return nil, err
	}
	where, format := w.cfg.Pool, formatQCOW2
	for _, k := range w.guest.disks {
		if k.deletable() {
			where, format = k.volume.Pool, choose(k.format == formatRaw, formatRaw, formatQCOW2)
			break
		}
	}
	pool, err := w.pool(ctx, where)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		volume := volumeName(orElse(w.guest.mark.birth, w.guest.xml.UUID), name, format)
		vol, path, err := w.newVolume(ctx, pool, volume, format, w.step.Params.Int("size")<<20, "")
		if err != nil {
			return err
		}
		err = w.do(ctx, func(lv *golibvirt.Libvirt) error {
			return lv.DomainAttachDeviceFlags(w.guest.Domain, diskText(name, path, format), w.reach())
		})
		if err != nil {
			w.discard(ctx, vol, false)
		}
		return err
	}, nil
}

// reach is the target of a change of devices: the definition, and the guest that runs.
func (w *work) reach() uint32 {
	if w.guest.active {
		return uint32(golibvirt.DomainDeviceModifyConfig | golibvirt.DomainDeviceModifyLive)
	}
	return uint32(golibvirt.DomainDeviceModifyConfig)
}

// own finds the step's disk. It refuses a disk that another guest uses too.
func (w *work) own(name string) (disk, error) {
	k, ok := w.guest.diskNamed(name)
	if !ok {
		return k, refusal.New(refusal.UnknownTarget, "%s has no disk %q", w.step.Target, name)
	}
	return k, w.mine(k)
}

func (w *work) mine(k disk) error {
	switch {
	case k.shared:
		return refusal.New(refusal.Conflict, "the disk %s of %s is read only, or shared", k.target, w.step.Target)
	case k.volume == nil:
		return refusal.New(refusal.Conflict, "the disk %s of %s is in no active pool of this libvirtd", k.target,
			w.step.Target).
			WithHint("virsh pool-refresh, pool-start or pool-define-as make it one that gated can act on")
	}
	if err := w.guest.used.alone(w.guest.domain, k, nil); err != nil {
		return refusal.New(refusal.Conflict, "the disk %s of %s: %v", k.target, w.step.Target, err)
	}
	return w.defined()
}

// still refuses a step that only works on a stopped guest. A guest without an operating system
// never releases a disk.
func (w *work) still() error {
	if !w.guest.active {
		return nil
	}
	return refusal.New(refusal.Conflict, "%s runs", w.step.Target).
		WithHint("stop it first: gated submit guest.stop %s", w.step.Target.Name)
}

func (w *work) diskResize(context.Context) (action, error) {
	k, err := w.own(w.step.Params.Str("disk"))
	if err != nil {
		return nil, err
	}
	size := w.step.Params.Int("size") << 20
	var flags golibvirt.StorageVolResizeFlags
	if size < k.capacity {
		if k.format != formatRaw {
			return nil, refusal.New(refusal.BadParams, "the disk %s of %s is %s, which libvirt cannot cut", k.target,
				w.step.Target, k.format)
		}
		if err := w.guest.used.clear(); err != nil {
			return nil, err
		}
		if err := w.still(); err != nil {
			return nil, err
		}
		flags = golibvirt.StorageVolResizeShrink
	}
	return func(ctx context.Context) error {
		switch {
		case size == k.capacity:
			return nil
		case w.guest.active:
			return w.long(ctx, func(lv *golibvirt.Libvirt) error {
				return lv.DomainBlockResize(w.guest.Domain, k.target, uint64(size), golibvirt.DomainBlockResizeBytes)
			})
		}
		return w.long(ctx, func(lv *golibvirt.Libvirt) error { return lv.StorageVolResize(*k.volume, uint64(size), flags) })
	}, nil
}

func (w *work) diskDetach(context.Context) (action, error) {
	k, ok := w.guest.diskNamed(w.step.Params.Str("disk"))
	if !ok {
		return nil, refusal.New(refusal.UnknownTarget, "%s has no disk %q", w.step.Target, w.step.Params.Str("disk"))
	}
	if err := w.defined(); err != nil {
		return nil, err
	}
	if err := w.noSnapshots(); err != nil {
		return nil, err
	}
	if err := w.still(); err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		w.detail = "it is kept: " + orElse(k.path, string(k.id))
		return w.detach(ctx, k)
	}, nil
}

// detach removes a disk from the definition.
func (w *work) detach(ctx context.Context, k disk) error {
	text := fmt.Sprintf(`<disk type='file' device='disk'><target dev='%s'/></disk>`, escape(k.target)) // found by its name
	return w.do(ctx, func(lv *golibvirt.Libvirt) error {
		return lv.DomainDetachDeviceFlags(w.guest.Domain, text, uint32(golibvirt.DomainDeviceModifyConfig))
	})
}

func (w *work) diskDelete(context.Context) (action, error) {
	k, err := w.own(w.step.Params.Str("disk"))
	if err == nil {
		err = w.guest.used.clear()
	}
	if err == nil {
		err = w.noSnapshots()
	}
	if err == nil {
		err = w.still()
	}
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		if err := w.detach(ctx, k); err != nil {
			return err
		}
		return w.deleteVolume(ctx, k, nil)
	}, nil
}

// noSnapshots refuses a change of disks if the guest has snapshots. The change would delete
// them with the disk, or leave them without a disk.
func (w *work) noSnapshots() error {
	if len(w.guest.snapshots) == 0 {
		return nil
	}
	return refusal.New(refusal.Conflict, "%s has snapshots, which are in its disks", w.step.Target).
		WithHint("delete them first, each by its own step: gated submit guest.snapshot-delete %s -p snapshot=%s", w.step.Target.Name, w.guest.snapshots[0].Name)
}
