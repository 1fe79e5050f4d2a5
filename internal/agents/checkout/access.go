package checkout

import (
	"encoding/binary"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
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

	list acl // nil without a list, or if no list matters to Writable
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
	d := Directory{Path: path, Device: uint64(st.Dev), Inode: st.Ino, UID: st.Uid, GID: st.Gid, Mode: st.Mode}
	// Without these bits no list lets another user write: the group's bits are the mask of its named entries (acl(5)).
	if st.Mode&unix.S_ISVTX == 0 && st.Mode&(unix.S_IWGRP|unix.S_IWOTH) != 0 {
		d.list = readACL(fd)
	}
	met(d)
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

// aclName is the extended attribute of a POSIX access list, and the rest of its
// form: linux/posix_acl_xattr.h, linux/posix_acl.h.
const (
	aclName    = "system.posix_acl_access"
	aclVersion = 2
	aclHeader  = 4
	aclSize    = 8 // bytes of one entry: tag, permissions, id

	aclUser        = 0x02
	aclOwningGroup = 0x04
	aclGroup       = 0x08
	aclMask        = 0x10
	aclOther       = 0x20

	aclWrite = 2
)

// acl is the access list of a directory (acl(5)). Its owner's entry is in the
// mode as well.
type acl []aclEntry

type aclEntry struct {
	tag, permissions uint16
	id               uint32 // of a named user or group
}

// readACL returns nil if there is no list, or if it cannot be read. The mode's group bits are then the most that the
// list can give its named entries.
func readACL(fd int) acl {
	// A descriptor opened with O_PATH gives attributes only by its name in /proc.
	path := "/proc/self/fd/" + strconv.Itoa(fd)
	b := make([]byte, 512)
	n, err := unix.Getxattr(path, aclName, b)
	if err == unix.ERANGE {
		b = make([]byte, 1<<16) // XATTR_SIZE_MAX
		n, err = unix.Getxattr(path, aclName, b)
	}
	if err != nil {
		return nil
	}
	return parseACL(b[:n])
}

func parseACL(b []byte) acl {
	if len(b) < aclHeader || binary.LittleEndian.Uint32(b) != aclVersion || (len(b)-aclHeader)%aclSize != 0 {
		return nil
	}
	var list acl
	for e := range slices.Chunk(b[aclHeader:], aclSize) {
		list = append(list, aclEntry{tag: binary.LittleEndian.Uint16(e), permissions: binary.LittleEndian.Uint16(e[2:]),
			id: binary.LittleEndian.Uint32(e[4:])})
	}
	return list
}

// writable is the algorithm of acl(5) for every uid but the owner's. A named user's entry decides alone. Otherwise one
// matching group with permission suffices. Only a uid in none of the groups gets the entry for others.
func (list acl) writable(uid uint32, groups []uint32, owning uint32) bool {
	mask, other := uint16(aclWrite), false
	for _, e := range list {
		switch e.tag {
		case aclMask:
			mask = e.permissions
		case aclOther:
			other = e.permissions&aclWrite != 0
		}
	}
	inGroup, groupMay := false, false
	for _, e := range list {
		may := e.permissions&mask&aclWrite != 0
		switch {
		case e.tag == aclUser && e.id == uid:
			return may
		case e.tag == aclOwningGroup && slices.Contains(groups, owning), e.tag == aclGroup && slices.Contains(groups, e.id):
			inGroup, groupMay = true, groupMay || may
		}
	}
	if inGroup {
		return groupMay
	}
	return other
}
