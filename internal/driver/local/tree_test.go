package local

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

func TestMeasureStopsAtItsLimit(t *testing.T) {
	d := openTemp(t)
	for i := range 9 {
		require.NoError(t, os.WriteFile(fmt.Sprintf("%s/f%d", mkdirs(t, d, "sub"), i), []byte("12345"), 0o600))
	}
	for limit, partial := range map[int64]bool{9: true, 10: false, 11: false} { // sub and nine files
		u := must.Get(measure(t.Context(), d, limit))(t)
		require.Equal(t, partial, u.partial, "limit %d", limit)
		require.Equal(t, min(limit, 10), u.entries)
	}
	u := must.Get(measure(t.Context(), d, 100))(t)
	require.Equal(t, int64(9), u.files)
	require.Equal(t, int64(45), u.apparent)
	require.Empty(t, u.obstacle)

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	u = must.Get(measure(ended, d, 100))(t)
	require.True(t, u.partial)
}

func TestMeasureNamesWhatCannotBeCopied(t *testing.T) {
	for what, make := range map[string]func(path string) error{
		"a FIFO":   func(p string) error { return unix.Mkfifo(p, 0o600) },
		"a socket": func(p string) error { return unix.Mknod(p, unix.S_IFSOCK|0o600, 0) },
		"a device node": func(p string) error {
			return unix.Mknod(p, unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3)))
		},
	} {
		t.Run(what, func(t *testing.T) {
			if what == "a device node" {
				needRoot(t, t.Name())
			}
			d := openTemp(t)
			require.NoError(t, make(mkdirs(t, d, "in", "here")+"/odd"))
			u := must.Get(measure(t.Context(), d, 100))(t)
			require.Equal(t, "in/here/odd is "+what, u.obstacle)
			to := openTemp(t)
			require.ErrorContains(t, copyTree(t.Context(), d, to, 100), "odd is "+what)
		})
	}
}

// deep makes a tree with this many levels of directories.
func deep(t *testing.T, d *dir, levels int) {
	t.Helper()
	at := d
	for range levels {
		next := must.Get(at.mkdir("d", 0o700))(t)
		if at != d {
			at.close()
		}
		at = next
	}
	at.close()
}

func TestDeepTrees(t *testing.T) {
	for levels, ok := range map[int]bool{maxDepth - 2: true, maxDepth - 1: true, maxDepth: false} {
		d, to := openTemp(t), openTemp(t)
		deep(t, d, levels)
		u := must.Get(measure(t.Context(), d, 1<<20))(t)
		require.Equal(t, ok, u.obstacle == "", "%d levels: %s", levels, u.obstacle)
		require.Equal(t, ok, copyTree(t.Context(), d, to, 1<<20) == nil, "%d levels", levels)
	}
	d := openTemp(t)
	deep(t, d, 5*maxDepth+3)
	require.NoError(t, removeTree(t.Context(), d, "d"))
	require.Empty(t, must.Get(os.ReadDir(d.path()))(t))
}

func TestCopyTreeKeepsWhatItSays(t *testing.T) {
	from, to := openTemp(t), openTemp(t)
	sub := mkdirs(t, from, "sub")
	outside := filepath.Join(t.TempDir(), "outside")
	require.NoError(t, os.WriteFile(outside, []byte("theirs"), 0o600))
	require.NoError(t, os.WriteFile(sub+"/file", []byte("hello"), 0o640))
	require.NoError(t, os.Chmod(sub+"/file", 0o4751))
	require.NoError(t, os.Symlink(outside, sub+"/link"))
	require.NoError(t, os.Symlink("nowhere", sub+"/dangling"))
	require.NoError(t, os.Link(sub+"/file", sub+"/second"))
	long := time.Date(2001, 2, 3, 4, 5, 6, 789, time.UTC)
	require.NoError(t, os.Chtimes(sub+"/file", long, long))
	require.NoError(t, os.Chmod(sub, 0o500))
	require.NoError(t, os.Chtimes(sub, long, long))
	t.Cleanup(func() { _ = os.Chmod(sub, 0o700); _ = os.Chmod(to.path()+"/sub", 0o700) })

	require.NoError(t, copyTree(t.Context(), from, to, 100))
	require.Equal(t, hashTree(t, from.path()), hashTree(t, to.path()))
	info := must.Get(os.Stat(to.path() + "/sub/file"))(t)
	require.True(t, info.ModTime().Equal(long), info.ModTime())
	info = must.Get(os.Stat(to.path() + "/sub"))(t)
	require.True(t, info.ModTime().Equal(long), info.ModTime())
	require.Equal(t, outside, must.Get(os.Readlink(to.path()+"/sub/link"))(t))
	// A copy shares no inode with the original, and its files share none with each other.
	a, b := inode(t, to.path()+"/sub/file"), inode(t, to.path()+"/sub/second")
	require.NotEqual(t, a, b)
	require.NotEqual(t, inode(t, sub+"/file"), a)
}

func inode(t *testing.T, path string) uint64 {
	t.Helper()
	return must.Get(os.Lstat(path))(t).Sys().(*syscall.Stat_t).Ino
}

func allocated(t *testing.T, path string) int64 {
	t.Helper()
	return must.Get(os.Lstat(path))(t).Sys().(*syscall.Stat_t).Blocks * 512
}

func TestCopyTreeKeepsHoles(t *testing.T) {
	from, to := openTemp(t), openTemp(t)
	f := must.Get(os.Create(from.path() + "/sparse"))(t)
	const size = 1 << 40 // a terabyte, of which three pieces exist
	require.NoError(t, f.Truncate(size))
	for _, at := range []int64{0, 1 << 30, size - 5} {
		must.Get(f.WriteAt([]byte("hello"), at))(t)
	}
	require.NoError(t, f.Close())
	require.NoError(t, os.WriteFile(from.path()+"/empty", nil, 0o600))
	require.NoError(t, copyTree(t.Context(), from, to, 10))
	info := must.Get(os.Stat(to.path() + "/sparse"))(t)
	require.Equal(t, int64(size), info.Size())
	require.Less(t, allocated(t, to.path()+"/sparse"), int64(1<<20))
	c := must.Get(os.Open(to.path() + "/sparse"))(t)
	defer c.Close()
	for _, at := range []int64{0, 1 << 30, size - 5} {
		b := make([]byte, 5)
		must.Get(c.ReadAt(b, at))(t)
		require.Equal(t, "hello", string(b))
	}
}

func TestCopyTreeIsBounded(t *testing.T) {
	from := openTemp(t)
	for i := range 5 {
		require.NoError(t, os.WriteFile(fmt.Sprintf("%s/%d", from.path(), i), nil, 0o600))
	}
	for limit, ok := range map[int64]bool{4: false, 5: true, 6: true} {
		require.Equal(t, ok, copyTree(t.Context(), from, openTemp(t), limit) == nil, "limit %d", limit)
	}
}

func TestRemoveTreeTakesOnlyTheTree(t *testing.T) {
	d := openTemp(t)
	keep := mkdirs(t, d, "keep")
	require.NoError(t, os.WriteFile(keep+"/file", []byte("mine"), 0o600))
	gone := mkdirs(t, d, "gone", "sub")
	require.NoError(t, os.Symlink(keep, gone+"/link"))
	require.NoError(t, os.Symlink("../../keep", gone+"/relative"))
	require.NoError(t, os.Link(keep+"/file", gone+"/second-name"))
	require.NoError(t, unix.Mkfifo(gone+"/fifo", 0o600))
	require.NoError(t, os.Chmod(gone, 0o000)) // a guest can do that to its own directory
	before := hashTree(t, keep)
	require.NoError(t, removeTree(t.Context(), d, "gone"))
	require.NoError(t, removeTree(t.Context(), d, "gone"), "nothing there is no error")
	require.Equal(t, before, hashTree(t, keep))
	must.Fail(os.Lstat(d.path()+"/gone"))(t, os.ErrNotExist)
}

func TestRemoveTreeOpensReadOnlyDirectories(t *testing.T) {
	d := openTemp(t)
	sub := mkdirs(t, d, "gone", "sub")
	require.NoError(t, os.WriteFile(sub+"/file", nil, 0o600))
	require.NoError(t, os.Chmod(sub, 0o500))
	require.NoError(t, removeTree(t.Context(), d, "gone"))
}

// bindMount mounts from over to until the test ends.
func bindMount(t *testing.T, from, to string) {
	t.Helper()
	needRoot(t, t.Name())
	if err := unix.Mount(from, to, "", unix.MS_BIND, ""); err != nil {
		t.Skipf("%s needs bind mounts: %v", t.Name(), err)
	}
	t.Cleanup(func() { _ = unix.Unmount(to, unix.MNT_DETACH) })
}

func TestRemoveTreeStopsAtAMount(t *testing.T) {
	d := openTemp(t)
	theirs := t.TempDir()
	require.NoError(t, os.WriteFile(theirs+"/file", []byte("theirs"), 0o600))
	point := mkdirs(t, d, "gone", "sub", "mnt")
	bindMount(t, theirs, point)
	require.ErrorIs(t, removeTree(t.Context(), d, "gone"), refusal.Conflict)
	b := must.Get(os.ReadFile(theirs + "/file"))(t)
	require.Equal(t, "theirs", string(b))
	require.NoError(t, unix.Unmount(point, 0))

	file := d.path() + "/gone/file"
	require.NoError(t, os.MkdirAll(d.path()+"/gone", 0o700))
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	bindMount(t, theirs+"/file", file)
	require.ErrorIs(t, removeTree(t.Context(), d, "gone"), refusal.Conflict)
	b = must.Get(os.ReadFile(theirs + "/file"))(t)
	require.Equal(t, "theirs", string(b))
}

func TestMountPoints(t *testing.T) {
	points := must.Get(mountPoints([]byte(`22 27 0:21 / /proc rw,relatime - proc proc rw
36 35 98:0 /mnt1 /mnt/a\040b\134c rw,noatime master:1 shared:2 - ext3 /dev/root rw
`)))(t)
	require.Equal(t, []string{"/proc", `/mnt/a b\c`}, points)
	must.Err(mountPoints([]byte("22 27 0:21 /\n")))(t)
}

func TestCheckNoMount(t *testing.T) {
	line := func(point string) string { return "1 2 0:1 / " + point + " rw - ext4 /dev/x rw\n" }
	for point, ok := range map[string]bool{
		"/": true, "/g": true, "/g/we": true, "/g/web-2": true, "/g/web2/data": true, "/other/g/web": true,
		"/g/web": false, "/g/web/data": false, "/g/web/data/x//deleted": false,
	} {
		d := &Driver{mountinfo: func() ([]byte, error) { return []byte(line(point)), nil }}
		err := d.checkNoMount("/g/web", "guest.destroy")
		require.Equal(t, ok, err == nil, point)
		if !ok {
			require.ErrorIs(t, err, refusal.Conflict)
			require.ErrorContains(t, err, point)
		}
	}
	d := &Driver{mountinfo: func() ([]byte, error) { return nil, os.ErrPermission }}
	require.Error(t, d.checkNoMount("/g/web", "guest.destroy"), "a table that cannot be read says nothing")
}
