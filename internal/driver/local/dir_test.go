package local

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func openTemp(t *testing.T) *dir {
	t.Helper()
	d, err := openDir(t.TempDir())
	require.NoError(t, err)
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
		_, err := d.sub(link)
		require.ErrorIs(t, err, unix.ENOTDIR, link)
		_, err = d.read(link)
		require.ErrorIs(t, err, unix.ELOOP, link)
		e, err := d.stat(link)
		require.NoError(t, err)
		require.True(t, e.isSymlink(), link)
	}
}

func TestDirTakesOneComponent(t *testing.T) {
	d := openTemp(t)
	mkdirs(t, d, "a", "b")
	for _, name := range []string{"", "..", "a/b", "/etc", "a/..", "../x", "a\x00b"} {
		_, err := d.sub(name)
		require.Error(t, err, "%q", name)
		_, err = d.stat(name)
		require.Error(t, err, "%q", name)
		_, err = d.mkdir(name, 0o700)
		require.Error(t, err, "%q", name)
		require.Error(t, d.unlink(name, unix.AT_REMOVEDIR), "%q", name)
		require.Error(t, d.rename("a", d, name, 0), "%q", name)
		require.Error(t, d.rename(name, d, "c", 0), "%q", name)
	}
	_, err := os.Stat(d.path() + "/a/b")
	require.NoError(t, err)
}

func TestReplaceIsWholeAndPrivate(t *testing.T) {
	d := openTemp(t)
	require.NoError(t, os.WriteFile(d.path()+"/.new-f", []byte("left by a crash"), 0o644))
	require.NoError(t, d.replace("f", []byte("one")))
	require.NoError(t, d.replace("f", []byte("two")))
	b, err := d.read("f")
	require.NoError(t, err)
	require.Equal(t, "two", string(b))
	e, err := d.stat("f")
	require.NoError(t, err)
	require.Equal(t, uint32(0o600), e.mode&0o7777)
	_, err = d.stat(".new-f")
	require.ErrorIs(t, err, os.ErrNotExist)
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
	_, err := d.read("fifo")
	require.ErrorContains(t, err, "not a regular file")
}

func TestRenameNeverCopies(t *testing.T) {
	d := openTemp(t)
	shm, err := os.MkdirTemp("/dev/shm", "gated-test-")
	if err != nil {
		t.Skip("TestRenameNeverCopies needs /dev/shm:", err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(shm) })
	other, err := openDir(shm)
	require.NoError(t, err)
	defer other.close()
	mkdirs(t, d, "tree")
	require.ErrorIs(t, d.rename("tree", other, "tree", unix.RENAME_NOREPLACE), unix.EXDEV)
	_, err = os.Stat(shm + "/tree")
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = os.Stat(d.path() + "/tree")
	require.NoError(t, err)
}
