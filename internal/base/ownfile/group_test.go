package ownfile_test

import (
	"os/user"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/ownfile"
	"gated/internal/test/must"
)

// A private group is the group that useradd makes for one user. Root has none, and a group of
// other users is none.
func TestPrivateGroup(t *testing.T) {
	root := ownfile.PrivateGroup(0)
	require.False(t, root(0))
	require.False(t, root(1000))

	const nobodys = 4242424
	require.False(t, ownfile.PrivateGroup(nobodys)(nobodys), "no account has this uid")

	for _, name := range []string{"daemon", "nobody", "bin"} {
		u := must.Get(user.Lookup(name))(t)
		uid, gid := number(t, u.Uid), number(t, u.Gid)
		g := must.Get(user.LookupGroupId(u.Gid))(t)
		require.Equal(t, g.Name == name, ownfile.PrivateGroup(uid)(gid), name)
		require.False(t, ownfile.PrivateGroup(uid)(0), "%s: root's group", name)
		require.False(t, ownfile.PrivateGroup(uid)(gid+1), "%s: another group", name)
	}
}

func number(t *testing.T, s string) uint32 {
	n := must.Get(strconv.ParseUint(s, 10, 32))(t)
	return uint32(n)
}
