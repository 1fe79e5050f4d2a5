package libvirt

import (
	"context"

	golibvirt "github.com/digitalocean/go-libvirt"

	"gated/internal/base/refusal"
)

func (w *work) wipe(context.Context) (action, error) {
	var all []disk
	for _, k := range w.guest.disks {
		if k.medium || k.shared {
			continue
		}
		if err := w.mine(k); err != nil {
			return nil, err
		}
		all = append(all, k)
	}
	if len(all) == 0 {
		return nil, refusal.New(refusal.Conflict, "%s has no disk of its own to wipe", w.step.Target)
	}
	return w.wiping(all)
}

func (w *work) diskWipe(context.Context) (action, error) {
	k, err := w.own(w.step.Params.Str("disk"))
	if err != nil {
		return nil, err
	}
	return w.wiping([]disk{k})
}

// wiping powers the guest off and empties disks. It refuses a guest with a saved state, because
// that state would write old data back onto the empty disk.
func (w *work) wiping(disks []disk) (action, error) {
	if err := w.guest.used.clear(); err != nil {
		return nil, err
	}
	if err := w.noSnapshots(); err != nil {
		return nil, err
	}
	if w.guest.saved {
		return nil, refusal.New(refusal.Conflict, "%s has a saved state, which knows what is on its disks", w.step.Target).
			WithHint("start it, or let an operator remove that: virsh managedsave-remove %s", w.step.Target.Name)
	}
	for _, k := range disks {
		if k.format != formatQCOW2 && k.format != formatRaw {
			return nil, refusal.New(refusal.BadParams, "the disk %s of %s is %s; gated can empty qcow2 and raw", k.target,
				w.step.Target, orElse(k.format, "of no known format"))
		}
	}
	return func(ctx context.Context) error {
		if w.guest.active {
			if err := w.powerOff(ctx); err != nil {
				return err
			}
		}
		for _, k := range disks {
			if err := w.empty(ctx, k); err != nil {
				return err
			}
		}
		return nil
	}, nil
}

// empty overwrites the content of a volume. That removes the header of a qcow2 file, and
// without it the file is no disk. So empty makes the file again under the same name, with the
// same size and without a backing file.
func (w *work) empty(ctx context.Context, k disk) error {
	if err := w.unused(ctx, k, nil); err != nil {
		return err
	}
	err := w.long(ctx, func(lv *golibvirt.Libvirt) error { return lv.StorageVolWipe(*k.volume, 0) })
	if err != nil || k.format == formatRaw {
		return err
	}
	pool, err := w.pool(ctx, k.volume.Pool)
	if err != nil {
		return err
	}
	if err := w.long(ctx, func(lv *golibvirt.Libvirt) error { return lv.StorageVolDelete(*k.volume, 0) }); err != nil {
		return err
	}
	_, _, err = w.newVolume(ctx, pool, k.volume.Name, formatQCOW2, k.capacity, "")
	return err
}
