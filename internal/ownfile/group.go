package ownfile

import (
	"os/user"
	"strconv"
)

// PrivateGroup returns a function that reports whether a group is the one that a
// uid has for itself: its primary group, named like it (useradd(8), -U). Root has
// none. Whether somebody was added to the group is not asked, so it is a rule for
// what a person reads, and none for what a daemon believes.
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
