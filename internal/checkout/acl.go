package checkout

import (
	"encoding/binary"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

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

// readACL returns nil where there is no list, and where it cannot be read: the
// bits of the group are then what the list gives its named ones at most.
func readACL(fd int) acl {
	// A descriptor that was opened with O_PATH has no attributes but by its name.
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

// writable is the algorithm of acl(5) for whoever is not the owner: a named
// user's entry decides alone, then one of the groups' is enough, and only who is
// in none of them is one of the others.
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
