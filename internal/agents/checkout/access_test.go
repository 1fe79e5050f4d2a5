package checkout

import (
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"gated/internal/test/must"
)

func TestDown(t *testing.T) {
	root := tree(t, "a/b/c/", "a/file", "link -> a")
	var met []Directory
	tell := func(d Directory) { met = append(met, d) }
	require.NoError(t, Down(root+"/a/b", tell))
	last := met[len(met)-1]
	require.Equal(t, "/", met[0].Path)
	require.Equal(t, root+"/a/b", last.Path)
	at := must.Get(At(root + "/a/b"))(t)
	require.Equal(t, []uint64{at.Device, at.Inode}, []uint64{last.Device, last.Inode})
	require.EqualValues(t, os.Geteuid(), last.UID)
	for path, want := range map[string]error{"/link/b": unix.ELOOP, "/link": unix.ELOOP, "/a/file": unix.ENOTDIR, "/a/file/x": unix.ENOTDIR,
		"/a/none/x": unix.ENOENT} {
		met = nil
		require.ErrorIs(t, Down(root+path, tell), want, path)
		require.NotContains(t, met[len(met)-1].Path, "link")
		require.NotEqual(t, root+path, met[len(met)-1].Path)
	}
	met = nil
	require.NoError(t, Down("/", tell))
	require.Len(t, met, 1)
}

func TestWritable(t *testing.T) {
	const owner, group = 1000, 2000
	d := func(mode uint32) Directory { return Directory{UID: owner, GID: group, Mode: unix.S_IFDIR | mode} }
	for _, c := range []struct {
		mode   uint32
		uid    uint32
		groups []uint32
		want   bool
	}{
		{0o000, 0, nil, true},
		{0o700, owner, nil, true},
		{0o577, owner, []uint32{group}, false},
		{0o755, 7, []uint32{group}, false},
		{0o775, 7, []uint32{6, group}, true},
		{0o757, 7, []uint32{group}, false}, // the group's bits are what counts for it
		{0o757, 7, []uint32{6}, true},
		{0o775, 7, []uint32{6}, false},
		{0o1777, 7, []uint32{group}, false},
		{0o1777, owner, nil, true},
		{0o1777, 0, nil, true},
		{0o3775, 7, []uint32{group}, false},
		{0o2775, 7, []uint32{group}, true},
	} {
		require.Equal(t, c.want, d(c.mode).Writable(c.uid, c.groups), "%o %d %v", c.mode, c.uid, c.groups)
	}
}

// An access list: a named user that may write, one that may not, a group that
// may, under masks.
func TestWritableByList(t *testing.T) {
	const owner, group = 1000, 2000
	list := func(mask, other uint16) acl {
		return acl{{tag: 1, permissions: 7, id: ^uint32(0)}, {aclUser, 7, 11}, {aclUser, 5, 12}, {aclOwningGroup, 5, ^uint32(0)},
			{aclGroup, 7, 21}, {aclGroup, 4, 22}, {aclMask, mask, ^uint32(0)}, {aclOther, other, ^uint32(0)}}
	}
	d := func(mask, other uint16) Directory {
		return Directory{UID: owner, GID: group, Mode: 0o700 | uint32(mask)<<3 | uint32(other), list: list(mask, other)}
	}
	require.True(t, d(7, 5).Writable(11, nil))
	require.False(t, d(5, 7).Writable(11, nil), "the mask")
	require.False(t, d(7, 7).Writable(12, []uint32{21}), "a named user's entry decides alone")
	require.False(t, d(7, 7).Writable(13, []uint32{group}), "the bits of the group are the mask's, not the group's")
	require.True(t, d(7, 5).Writable(13, []uint32{group, 22, 21}), "one of them is enough")
	require.False(t, d(7, 7).Writable(13, []uint32{22}))
	require.True(t, d(7, 7).Writable(13, []uint32{23}))
	require.False(t, d(7, 5).Writable(13, []uint32{23}))
	require.True(t, d(0, 0).Writable(owner, nil))
	require.True(t, d(0, 7).Writable(11, nil), "the kernel does not look at a list whose mask gives nothing")
	require.False(t, d(0, 7).Writable(13, []uint32{group}))
	require.Equal(t, list(7, 5), parseACL(encode(list(7, 5))))
	for _, bad := range [][]byte{nil, {2, 0, 0}, {3, 0, 0, 0}, {2, 0, 0, 0, 1}} {
		require.Nil(t, parseACL(bad))
	}
}

func encode(list acl) []byte {
	b := binary.LittleEndian.AppendUint32(nil, aclVersion)
	for _, e := range list {
		b = binary.LittleEndian.AppendUint16(b, e.tag)
		b = binary.LittleEndian.AppendUint16(b, e.permissions)
		b = binary.LittleEndian.AppendUint32(b, e.id)
	}
	return b
}

// The kernel says the same: a process of that uid makes a name in the directory,
// or cannot. What the sticky bit forbids is not making, so it is left out.
func TestTheKernelSaysTheSame(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to be other uids")
	}
	root := tree(t)
	require.NoError(t, os.Chmod(root, 0o755))
	for above := filepath.Dir(root); above != "/" && above != os.TempDir(); above = filepath.Dir(above) {
		require.NoError(t, os.Chmod(above, 0o755))
	}
	dir := root + "/d"
	require.NoError(t, os.Mkdir(dir, 0o755))
	someone := rapid.SampledFrom([]uint32{64_101, 64_102, 64_103})
	permissions := rapid.SampledFrom([]uint16{0, 5, 7})
	rapid.Check(t, func(t *rapid.T) {
		owner, group, uid := someone.Draw(t, "owner"), someone.Draw(t, "group"), someone.Draw(t, "uid")
		groups := rapid.SliceOfNDistinct(someone, 0, 2, rapid.ID).Draw(t, "groups")
		require.NoError(t, os.Chown(dir, int(owner), int(group)))
		_ = unix.Removexattr(dir, aclName)
		require.NoError(t, unix.Chmod(dir, uint32(rapid.IntRange(0, 0o777).Draw(t, "mode"))|0o111))
		if rapid.Bool().Draw(t, "list") {
			list := acl{{1, 7, ^uint32(0)}, {aclUser, permissions.Draw(t, "user"), someone.Draw(t, "named user")},
				{aclOwningGroup, permissions.Draw(t, "group's"), ^uint32(0)}, {aclGroup, permissions.Draw(t, "named"), someone.Draw(t, "named group")},
				{aclMask, permissions.Draw(t, "mask"), ^uint32(0)}, {aclOther, permissions.Draw(t, "other"), ^uint32(0)}}
			if err := unix.Setxattr(dir, aclName, encode(list), 0); err != nil {
				if err != unix.ENOTSUP {
					t.Fatalf("%+v: %v", list, err)
				}
			}
		}
		var d Directory
		require.NoError(t, Down(dir, func(one Directory) { d = one }))
		cmd := exec.Command("/bin/sh", "-c", `test -w "$0"`, dir)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: 64_100, Groups: groups}}
		err := cmd.Run()
		if mine := d.Writable(uid, append([]uint32{64_100}, groups...)); mine != (err == nil) {
			t.Fatalf("uid %d in %v, %+v: %v, the kernel says %v", uid, groups, d, mine, err)
		}
	})
}
