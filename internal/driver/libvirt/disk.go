package libvirt

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	golibvirt "github.com/digitalocean/go-libvirt"
	"golang.org/x/sys/unix"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// The formats of disks that this driver makes and can read.
const (
	formatQCOW2 = "qcow2"
	formatRaw   = "raw"
)

// disk is one disk of a domain's persistent configuration.
type disk struct {
	target    string // "vda"
	path      string // of a file or a device; empty if the disk has none on this host
	id        op.StorageID
	weak      bool // another disk could get the same id
	format    string
	capacity  int64 // bytes; 0 if it is not known
	allocated int64 // bytes
	modified  string
	volume    *golibvirt.StorageVol // nil if no active pool has it
	shared    bool                  // read only, or meant to be shared: never deleted or wiped
	readonly  bool
	medium    bool // a CD or a floppy
	transient bool // its changes are lost when the guest stops
}

// deletable reports if a destroy takes the disk.
func (k disk) deletable() bool { return k.volume != nil && !k.shared && !k.medium }

// sourcePath returns the file or device of a disk. For a volume of a pool it asks libvirtd.
func sourcePath(ctx context.Context, s *session, x sourceXML) (string, error) {
	switch {
	case x.File != "":
		return x.File, nil
	case x.Dev != "":
		return x.Dev, nil
	case x.Dir != "":
		return x.Dir, nil
	case x.Volume != "":
		return call(ctx, s, func(lv *golibvirt.Libvirt) (string, error) {
			return lv.StorageVolGetPath(golibvirt.StorageVol{Pool: x.Pool, Name: x.Volume})
		})
	}
	return "", nil
}

// disk looks at one disk of a domain.
func (d *Driver) disk(ctx context.Context, s *session, x diskXML) (disk, error) {
	k := disk{target: x.Target.Dev, format: x.Driver.Type, shared: x.ReadOnly != nil || x.Shareable != nil,
		readonly: x.ReadOnly != nil, medium: x.medium(), transient: x.Transient != nil}
	var err error
	if k.path, err = sourcePath(ctx, s, x.Source); err != nil && !said(err, golibvirt.ErrNoStorageVol, golibvirt.ErrNoStoragePool) {
		return k, err
	}
	if k.path == "" {
		k.id = op.StorageID(fmt.Sprintf("libvirt:%s:%s:%s/%s", x.Type, x.Source.Protocol+x.Source.Pool, x.Source.Name, x.Source.Volume))
		return k, nil
	}
	if err := d.lookUpVolume(ctx, s, &k); err != nil {
		return k, err
	}
	k.id, k.weak, err = identify(k)
	return k, err
}

// lookUpVolume fills in what a pool says of the disk.
func (d *Driver) lookUpVolume(ctx context.Context, s *session, k *disk) error {
	vol, err := call(ctx, s, func(lv *golibvirt.Libvirt) (golibvirt.StorageVol, error) { return lv.StorageVolLookupByPath(k.path) })
	if said(err, golibvirt.ErrNoStorageVol) {
		return nil
	}
	if err != nil {
		return err
	}
	text, err := call(ctx, s, func(lv *golibvirt.Libvirt) (string, error) { return lv.StorageVolGetXMLDesc(vol, 0) })
	if err != nil {
		if errors.Is(err, errAway) {
			return err
		}
		return nil // the pool still lists a volume that is gone
	}
	x, err := parseXML[volumeXML](text)
	if err != nil {
		return err
	}
	if k.capacity, err = x.Capacity.bytes(); err != nil {
		return err
	}
	if k.allocated, err = x.Allocation.bytes(); err != nil {
		return err
	}
	k.volume, k.modified = &vol, x.Target.Modified
	if k.format == "" {
		k.format = x.Target.Format.Type
	}
	return nil
}

// statOf looks at the file of a path; it follows links.
func statOf(path string) (st unix.Statx_t, err error) {
	err = unix.Statx(unix.AT_FDCWD, path, unix.AT_STATX_SYNC_AS_STAT, unix.STATX_INO|unix.STATX_BTIME|unix.STATX_TYPE, &st)
	return st, err
}

// identify returns an id that does not depend on the disk's path alone. A file's id has its
// inode and the time at which the inode was made. Any other disk has the key that libvirt has
// for the volume. If this daemon cannot see the file, the id is only its path. An id is weak if
// another disk could get the same one.
func identify(k disk) (id op.StorageID, weak bool, err error) {
	if !filepath.IsAbs(k.path) && k.volume != nil { // a pool that is not on this host
		return op.StorageID("libvirt:volume:" + k.volume.Key), false, nil
	}
	st, err := statOf(k.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return op.StorageID("libvirt:missing:" + k.path), true, nil
	case errors.Is(err, fs.ErrPermission):
		return op.StorageID("libvirt:unseen:" + k.path), true, nil
	case err != nil:
		return "", true, &os.PathError{Op: "statx", Path: k.path, Err: err}
	}
	if st.Mode&unix.S_IFMT == unix.S_IFREG {
		id, weak = fileID(k.path, st, generation)
		return id, weak, nil
	}
	if k.volume != nil {
		return op.StorageID("libvirt:volume:" + k.volume.Key), false, nil
	}
	return op.StorageID("libvirt:path:" + k.path), false, nil
}

// fileID is the id of a file. A file system uses a deleted file's inode for the next file, so
// the inode alone is not enough. The time at which the file was made tells the two apart. If
// the file system has no such times, the generation of the inode does.
func fileID(path string, st unix.Statx_t, generation func(string) (uint32, bool)) (id op.StorageID, weak bool) {
	if st.Mask&unix.STATX_BTIME != 0 {
		return op.StorageID(fmt.Sprintf("libvirt:file:%s@%d.%d.%09d", path, st.Ino, st.Btime.Sec, st.Btime.Nsec)), false
	}
	if n, ok := generation(path); ok {
		return op.StorageID(fmt.Sprintf("libvirt:file:%s@%d.g%d", path, st.Ino, n)), false
	}
	return op.StorageID(fmt.Sprintf("libvirt:weak:%s@%d", path, st.Ino)), true
}

// getVersion is FS_IOC_GETVERSION of linux/fs.h for a long of 64 bits. The kernel returns 32
// bits (ioctl_getversion of ext4 and others).
const getVersion = 0x80087601

// generation returns the inode's generation, as ext2 to ext4, XFS and others count it. A file
// system without generations returns 0.
func generation(path string) (uint32, bool) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return 0, false
	}
	defer func() { _ = f.Close() }()
	n, err := unix.IoctlGetUint32(int(f.Fd()), getVersion)
	return n, err == nil && n != 0
}

// weakPlace reports if a directory's file system cannot tell a file from a later one.
func weakPlace(dir string) bool {
	st, err := statOf(dir)
	if err != nil {
		return !absentFile(err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return false // a pool of devices
	}
	_, weak := fileID(dir, st, generation)
	return weak
}

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
	if err := w.guest.used.clear(nil); err != nil {
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
