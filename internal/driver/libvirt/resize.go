package libvirt

import (
	"context"

	"gated/internal/base/refusal"

	golibvirt "github.com/digitalocean/go-libvirt"
)

func (w *work) diskResize(context.Context) (action, error) {
	k, err := w.own(w.step.Params.Str("disk"))
	if err != nil {
		return nil, err
	}
	if !w.guest.runsWith(k) {
		return nil, refusal.New(refusal.Conflict, "%s runs with another disk as %s than is configured", w.step.Target, k.target).
			WithHint("stop it first: gated submit guest.stop %s", w.step.Target.Name)
	}
	size := w.step.Params.Int("size") << 20
	var flags golibvirt.StorageVolResizeFlags
	if size < k.capacity {
		if k.format != formatRaw {
			return nil, refusal.New(refusal.BadParams, "the disk %s of %s is %s, which libvirt cannot cut", k.target,
				w.step.Target, k.format)
		}
		if err := w.guest.used.clear(nil); err != nil {
			return nil, err
		}
		if err := w.still(); err != nil {
			return nil, err
		}
		flags = golibvirt.StorageVolResizeShrink
	}
	return func(ctx context.Context) error {
		if err := w.sized(ctx, k, size < k.capacity); err != nil || size == k.capacity {
			return err
		}
		if w.guest.active {
			return w.long(ctx, func(lv *golibvirt.Libvirt) error {
				return lv.DomainBlockResize(w.guest.Domain, k.target, uint64(size), golibvirt.DomainBlockResizeBytes)
			})
		}
		return w.long(ctx, func(lv *golibvirt.Libvirt) error { return lv.StorageVolResize(*k.volume, uint64(size), flags) })
	}, nil
}

// runsWith reports whether a guest that runs has the disk under the name that its configuration gives the disk.
func (dom *domain) runsWith(k disk) bool {
	source := func(all []diskXML) (x sourceXML) {
		for _, d := range all {
			if d.Target.Dev == k.target {
				x = d.Source
			}
		}
		return x
	}
	is, runs := source(dom.xml.Disks), source(dom.live.Disks)
	return !dom.active || is == runs || is.Volume != "" && is.Pool == runs.Pool && is.Volume == runs.Volume
}

// sized refuses a resize if the disk is not the one, or has not the size, that the look saw. libvirtd and QEMU cut a disk that
// grew meanwhile beyond the wished size, and no signature covers what is there. It also refuses if the guest was started or
// stopped since.
func (w *work) sized(ctx context.Context, k disk, cuts bool) error {
	all, err := inventory(ctx, w.session)
	if err != nil {
		return err
	}
	dom, err := w.same(all)
	if err != nil {
		return err
	}
	if dom.active != w.guest.active || !dom.runsWith(k) {
		return stale("%s was started, stopped or given another disk meanwhile", w.step.Target)
	}
	used, err := usesOf(ctx, w.session, all)
	if err == nil {
		err = used.alone(w.guest.domain, k, nil)
	}
	if err == nil && cuts {
		err = used.clear(nil)
	}
	if err != nil {
		return err
	}
	now, err := w.seen(ctx, k)
	if err != nil {
		return err
	}
	if now.capacity != k.capacity {
		return stale("the disk %s of %s has %d bytes now, and had %d", k.target, w.step.Target, now.capacity, k.capacity)
	}
	return w.sizedInQEMU(ctx, k)
}

// sector is the unit of a disk's size in QEMU, in bytes.
const sector = 512

// sizedInQEMU is sized for what QEMU has of a guest that runs.
func (w *work) sizedInQEMU(ctx context.Context, k disk) error {
	if !w.guest.active {
		return nil
	}
	runs, err := call(ctx, w.session, func(lv *golibvirt.Libvirt) (int64, error) {
		_, capacity, _, err := lv.DomainGetBlockInfo(w.guest.Domain, k.target, 0)
		return int64(min(capacity, 1<<62)), err
	})
	if more := runs - k.capacity; err == nil && (more < 0 || more >= sector) {
		err = stale("the disk %s of %s, which runs, has %d bytes, and had %d", k.target, w.step.Target, runs, k.capacity)
	}
	return err
}

// stale refuses a step whose target is not as the look saw it.
func stale(format string, args ...any) error {
	return refusal.New(refusal.StaleTarget, format, args...)
}
