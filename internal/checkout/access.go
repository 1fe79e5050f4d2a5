package checkout

import (
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Directory is one directory, and what stat(2) and its access list say of who
// may write to it.
type Directory struct {
	Path   string
	Device uint64
	Inode  uint64
	UID    uint32
	GID    uint32
	Mode   uint32 // as of stat(2)

	list acl // nil where there is none
}

// Down goes from "/" down to a directory, whose path is absolute and in its
// shortest form, and tells of each directory on the way as soon as it was looked
// at, the last one included. It follows no link: ELOOP. Errors are those of the
// file system, ENOTDIR where there is something else on the way.
func Down(path string, met func(Directory)) error {
	at, err := unix.Open("/", unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return &fs.PathError{Op: "open", Path: "/", Err: err}
	}
	defer func() { _ = unix.Close(at) }() // it was only looked at
	seen := "/"
	if err := meet(at, seen, met); err != nil {
		return err
	}
	for name := range strings.SplitSeq(path, "/") {
		if name == "" {
			continue
		}
		seen = filepath.Join(seen, name)
		below, err := unix.Openat(at, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return &fs.PathError{Op: "open", Path: seen, Err: err}
		}
		_ = unix.Close(at)
		at = below
		if err := meet(at, seen, met); err != nil {
			return err
		}
	}
	return nil
}

// meet tells of what a descriptor is of, if that is a directory.
func meet(fd int, path string, met func(Directory)) error {
	var st unix.Stat_t
	err := unix.Fstat(fd, &st)
	switch {
	case err != nil:
	case st.Mode&unix.S_IFMT == unix.S_IFLNK:
		err = unix.ELOOP
	case st.Mode&unix.S_IFMT != unix.S_IFDIR:
		err = unix.ENOTDIR
	}
	if err != nil {
		return &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	met(Directory{Path: path, Device: uint64(st.Dev), Inode: st.Ino, UID: st.Uid, GID: st.Gid, Mode: st.Mode, list: readACL(fd)})
	return nil
}

// Writable reports whether a uid in some groups may make and remove names in a
// directory, as the kernel decides it by owner, mode and access list; what else
// may be in the way, a mount that is read-only or a security module, is not
// asked. In a directory with the sticky bit, such as /tmp, one may remove
// nobody's names but one's own: it is its owner's alone. Root may.
func (d Directory) Writable(uid uint32, groups []uint32) bool {
	switch {
	case uid == 0:
		return true
	case uid == d.UID:
		return d.Mode&unix.S_IWUSR != 0
	case d.Mode&unix.S_ISVTX != 0:
		return false
	case d.list != nil && d.Mode&unix.S_IRWXG != 0: // else the kernel does not look at it
		return d.list.writable(uid, groups, d.GID)
	case slices.Contains(groups, d.GID):
		return d.Mode&unix.S_IWGRP != 0
	}
	return d.Mode&unix.S_IWOTH != 0
}
