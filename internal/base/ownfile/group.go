package ownfile

import (
	"os/user"
	"strconv"
)

// PrivateGroup returns a function that reports whether a group is a uid's private one: its
// primary group, with the same name (useradd(8), -U). Root has none. It does not check that the
// group has no other members. So use it only for files that a person reads, not for files that
// a daemon trusts.
func PrivateGroup(uid uint32) func(gid uint32) bool {
	return func(gid uint32) bool {
		if uid == 0 || gid == 0 {
			return false
		}
		text := strconv.FormatUint(uint64(gid), 10)
		u, err := user.LookupId(strconv.FormatUint(uint64(uid), 10))
		if err != nil || u.Gid != text {
			return false
		}
		g, err := user.LookupGroupId(text)
		return err == nil && g.Name == u.Username
	}
}
