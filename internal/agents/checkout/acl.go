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
