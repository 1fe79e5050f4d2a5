package libvirt

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"gated/internal/base/op"

	golibvirt "github.com/digitalocean/go-libvirt"
	"golang.org/x/sys/unix"
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
