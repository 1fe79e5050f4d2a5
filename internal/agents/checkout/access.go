package checkout

import (
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Directory is one directory, with what stat(2) and its access list say about write access.
type Directory struct {
	Path   string
	Device uint64
	Inode  uint64
	UID    uint32
	GID    uint32
	Mode   uint32 // as of stat(2)

	list acl // nil without a list
}

// Down goes from "/" down to a directory. It calls met for each directory on the way, the last included, as soon as it
// has looked at it. The path must be absolute and clean. It follows no link: ELOOP. Errors are those of the file
// system; ENOTDIR if anything else is on the way.
func Down(path string, met func(Directory)) error {
	at, err := unix.Open("/", unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return &fs.PathError{Op: "open", Path: "/", Err: err}
	}
	defer func() { _ = unix.Close(at) }() // it was only looked at, so a failed close loses nothing
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

// meet calls met if the descriptor is a directory.
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

// Writable reports whether a uid in some groups may make and remove names in a directory, by owner, mode and access
// list, as the kernel decides. It does not ask for other obstacles: a read-only mount or a security module. In a sticky
// directory, such as /tmp, a uid may remove only its own names, so only the owner counts as writer. Root may always.
func (d Directory) Writable(uid uint32, groups []uint32) bool {
	switch {
	case uid == 0:
		return true
	case uid == d.UID:
		return d.Mode&unix.S_IWUSR != 0
	case d.Mode&unix.S_ISVTX != 0:
		return false
	case d.list != nil && d.Mode&unix.S_IRWXG != 0: // otherwise the kernel ignores the list
		return d.list.writable(uid, groups, d.GID)
	case slices.Contains(groups, d.GID):
		return d.Mode&unix.S_IWGRP != 0
	}
	return d.Mode&unix.S_IWOTH != 0
}
