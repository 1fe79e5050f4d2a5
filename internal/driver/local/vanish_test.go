package local

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"gated/internal/test/must"
)

// TestARemovedDirectoryIsEmpty: a guest may remove a directory after a look or a copy opened
// it.
func TestARemovedDirectoryIsEmpty(t *testing.T) {
	d := openTemp(t)
	path := mkdirs(t, d, "gone")
	sub := must.Get(d.sub("gone"))(t)
	defer sub.close()
	require.NoError(t, os.Remove(path))
	require.NoError(t, sub.each(func(name string) error { t.Error(name); return nil }))
	require.Equal(t, usage{}, must.Get(measure(t.Context(), sub, 10))(t))
	mkdirs(t, d, "copy")
	to := must.Get(d.sub("copy"))(t)
	defer to.close()
	require.NoError(t, copyTree(t.Context(), sub, to, 10))
	require.Empty(t, entries(t, to.path()))
}

// TestAnErrorOfTheVisitorIsKept: if the visitor's error is ErrNotExist, that is not the end of
// the directory.
func TestAnErrorOfTheVisitorIsKept(t *testing.T) {
	d := openTemp(t)
	mkdirs(t, d, "sub")
	require.ErrorIs(t, d.each(func(string) error { return unix.ENOENT }), unix.ENOENT)
}

// TestCopyLeavesOutWhatVanished removes entries after the listing, before their stat and before
// their open.
func TestCopyLeavesOutWhatVanished(t *testing.T) {
	d := openTemp(t)
	from, to := mkdirs(t, d, "from"), mkdirs(t, d, "to")
	src := must.Get(d.sub("from"))(t)
	defer src.close()
	dst := must.Get(d.sub("to"))(t)
	defer dst.close()
	c := copying{ctx: t.Context(), limit: 10}
	require.NoError(t, c.entry(src, dst, "not there", 1), "before the look")

	file, link := filepath.Join(from, "file"), filepath.Join(from, "link")
	require.NoError(t, os.WriteFile(file, []byte("x"), 0o600))
	require.NoError(t, os.Symlink("x", link))
	looks := map[string]entry{}
	for _, name := range []string{"file", "link"} {
		looks[name] = must.Get(src.stat(name))(t)
	}
	require.NoError(t, os.Remove(file))
	require.NoError(t, os.Remove(link))
	require.NoError(t, c.file(src, dst, "file", looks["file"]))
	require.NoError(t, c.symlink(src, dst, "link", looks["link"]))
	require.Empty(t, entries(t, to))

	// If the destination is gone, the copy fails.
	require.NoError(t, os.Symlink("x", link))
	require.NoError(t, os.Remove(to))
	require.ErrorIs(t, c.entry(src, dst, "link", 1), unix.ENOENT)
}

// TestLooksAtABusyGuest observes and copies a guest that makes and removes directories all the
// time.
func TestLooksAtABusyGuest(t *testing.T) {
	w := newWorld(t, withCommand("busy", sh("echo up > up; while :; do mkdir -p a/b/c d/e; rm -rf a d; done")))
	w.do("create", "web", "command", "busy", "state", "running")
	w.waitUp("web")
	for range 50 {
		require.Equal(t, Running, w.observe("web").Running)
		w.do("snapshot", "web", "snapshot", "s")
		w.do("snapshot-delete", "web", "snapshot", "s")
	}
	w.do("stop", "web")
}
