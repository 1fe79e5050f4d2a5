package local

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"gated/internal/test/must"
)

func openTemp(t *testing.T) *dir {
	t.Helper()
	d := must.Get(openDir(t.TempDir()))(t)
	t.Cleanup(d.close)
	return d
}

func mkdirs(t *testing.T, d *dir, path ...string) string {
	t.Helper()
	p := filepath.Join(append([]string{d.path()}, path...)...)
	require.NoError(t, os.MkdirAll(p, 0o700))
	return p
}

// TestDirFollowsNothing: dir does not follow links that stay inside; os.Root would.
func TestDirFollowsNothing(t *testing.T) {
	d := openTemp(t)
	mkdirs(t, d, "real")
	require.NoError(t, os.WriteFile(d.path()+"/file", []byte("x"), 0o600))
	for link, to := range map[string]string{"inside": "real", "outside": "/etc", "dangling": "nowhere", "loop": "loop", "tofile": "file"} {
		require.NoError(t, os.Symlink(to, filepath.Join(d.path(), link)))
		must.Fail(d.sub(link))(t, unix.ENOTDIR, link)
		must.Fail(d.read(link))(t, unix.ELOOP, link)
		require.True(t, must.Get(d.stat(link))(t).isSymlink(), link)
	}
}

func TestDirTakesOneComponent(t *testing.T) {
	d := openTemp(t)
	mkdirs(t, d, "a", "b")
	for _, name := range []string{"", "..", "a/b", "/etc", "a/..", "../x", "a\x00b"} {
		must.Err(d.sub(name))(t, "%q", name)
		must.Err(d.stat(name))(t, "%q", name)
		must.Err(d.mkdir(name, 0o700))(t, "%q", name)
		require.Error(t, d.unlink(name, unix.AT_REMOVEDIR), "%q", name)
		require.Error(t, d.rename("a", d, name, 0), "%q", name)
		require.Error(t, d.rename(name, d, "c", 0), "%q", name)
	}
	must.Get(os.Stat(d.path() + "/a/b"))(t)
}

func TestReplaceIsWholeAndPrivate(t *testing.T) {
	d := openTemp(t)
	require.NoError(t, os.WriteFile(d.path()+"/.new-f", []byte("left by a crash"), 0o644))
	require.NoError(t, d.replace("f", []byte("one")))
	require.NoError(t, d.replace("f", []byte("two")))
	b := must.Get(d.read("f"))(t)
	require.Equal(t, "two", string(b))
	e := must.Get(d.stat("f"))(t)
	require.Equal(t, uint32(0o600), e.mode&0o7777)
	must.Fail(d.stat(".new-f"))(t, os.ErrNotExist)
}

func TestReadIsBounded(t *testing.T) {
	d := openTemp(t)
	for size, ok := range map[int64]bool{maxSmallFile - 1: true, maxSmallFile: true, maxSmallFile + 1: false} {
		require.NoError(t, os.WriteFile(d.path()+"/f", nil, 0o600))
		require.NoError(t, os.Truncate(d.path()+"/f", size))
		_, err := d.read("f")
		require.Equal(t, ok, err == nil, "%d bytes: %v", size, err)
	}
}

func TestReadDoesNotBlockOnAFIFO(t *testing.T) {
	d := openTemp(t)
	require.NoError(t, unix.Mkfifo(d.path()+"/fifo", 0o600))
	require.ErrorContains(t, must.Err(d.read("fifo"))(t), "not a regular file")
}

func TestRenameNeverCopies(t *testing.T) {
	d := openTemp(t)
	shm, err := os.MkdirTemp("/dev/shm", "gated-test-")
	if err != nil {
		t.Skip("TestRenameNeverCopies needs /dev/shm:", err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(shm) })
	other := must.Get(openDir(shm))(t)
	defer other.close()
	mkdirs(t, d, "tree")
	require.ErrorIs(t, d.rename("tree", other, "tree", unix.RENAME_NOREPLACE), unix.EXDEV)
	must.Fail(os.Stat(shm+"/tree"))(t, os.ErrNotExist)
	must.Get(os.Stat(d.path() + "/tree"))(t)
}
