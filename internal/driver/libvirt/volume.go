package libvirt

import (
	"context"
	"fmt"
	"strings"

	golibvirt "github.com/digitalocean/go-libvirt"

	"gated/internal/base/refusal"
)

// pool finds an active storage pool.
func (w *work) pool(ctx context.Context, name string) (golibvirt.StoragePool, error) {
	pool, err := call(ctx, w.session, func(lv *golibvirt.Libvirt) (golibvirt.StoragePool, error) { return lv.StoragePoolLookupByName(name) })
	if said(err, golibvirt.ErrNoStoragePool) {
		return pool, refusal.New(refusal.Conflict, "libvirt has no storage pool %q", name).
			WithHint("virsh pool-define-as, or another pool in gated.yaml")
	}
	if err != nil {
		return pool, err
	}
	active, err := call(ctx, w.session, func(lv *golibvirt.Libvirt) (int32, error) { return lv.StoragePoolIsActive(pool) })
	if err == nil && active == 0 {
		err = refusal.New(refusal.Unavailable, "the storage pool %q is not active", name).
			WithHint("virsh pool-start %s", name)
	}
	return pool, err
}

// poolPath is the directory of a pool, or its other source.
func poolPath(ctx context.Context, s *session, pool golibvirt.StoragePool) (string, error) {
	text, err := call(ctx, s, func(lv *golibvirt.Libvirt) (string, error) { return lv.StoragePoolGetXMLDesc(pool, 0) })
	if err != nil {
		return "", err
	}
	x, err := parseXML[poolXML](text)
	return x.Path, err
}

// volumeText is the XML of a new volume.
func volumeText(name, format string, bytes int64) string {
	return fmt.Sprintf(`<volume><name>%s</name><capacity unit='bytes'>%d</capacity><allocation unit='bytes'>0</allocation>`+
		`<target><format type='%s'/></target></volume>`, escape(name), bytes, format)
}

// newVolume makes an empty volume, or a copy of another volume of the pool. It has at least
// that many bytes.
func (w *work) newVolume(ctx context.Context, pool golibvirt.StoragePool, name, format string, bytes int64, image string) (vol golibvirt.StorageVol, where string, err error) {
	was := w.begun
	// An answer that comes too late must not write to vol, so the result comes through the
	// call.
	vol, err = longCall(ctx, w.session, func(lv *golibvirt.Libvirt) (golibvirt.StorageVol, error) {
		if image == "" {
			return lv.StorageVolCreateXML(pool, volumeText(name, format, bytes), 0)
		}
		from, err := lv.StorageVolLookupByName(pool, image)
		if err != nil {
			return golibvirt.StorageVol{}, err
		}
		vol, err := lv.StorageVolCreateXMLFrom(pool, volumeText(name, format, bytes), from, 0)
		if err != nil {
			return golibvirt.StorageVol{}, err
		}
		_, capacity, _, err := lv.StorageVolGetInfo(vol)
		if err == nil && capacity < uint64(bytes) {
			err = lv.StorageVolResize(vol, uint64(bytes), 0)
		}
		return vol, err
	})
	if w.mark(err) == nil {
		where, err = call(ctx, w.session, func(lv *golibvirt.Libvirt) (string, error) { return lv.StorageVolGetPath(vol) })
	}
	if err != nil && vol.Name != "" {
		w.discard(ctx, vol, was)
	}
	return vol, where, err
}

// discard deletes a volume that this step made and that no guest uses. Then the step has
// changed only what it had changed before: was says if it had changed anything. If the delete
// fails, discard writes that to the log.
func (w *work) discard(ctx context.Context, vol golibvirt.StorageVol, was bool) {
	if w.session.broken {
		return
	}
	err := w.do(context.WithoutCancel(ctx), func(lv *golibvirt.Libvirt) error { return lv.StorageVolDelete(vol, 0) })
	if err != nil {
		w.cfg.Logger.Warn("a volume that no guest uses is left", "pool", vol.Pool, "volume", vol.Name, "err", err)
		return
	}
	w.begun = was
}

// volumeName is the name of a disk's volume. It has the guest's birth token and a random part,
// so that no volume that a crash left has the same name.
func volumeName(birth, target, format string) string {
	return birth + "-" + target + "-" + random(4) + "." + choose(format == formatRaw, "img", format)
}

// diskText is the XML of a disk on a file or a device.
func diskText(target, where, format string) string {
	kind, attr := "file", "file"
	if strings.HasPrefix(where, "/dev/") {
		kind, attr = "block", "dev"
	}
	return fmt.Sprintf(`<disk type='%s' device='disk'><driver name='qemu' type='%s'/><source %s='%s'/><target dev='%s' bus='virtio'/></disk>`,
		kind, format, attr, escape(where), escape(target))
}
