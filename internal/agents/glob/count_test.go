package glob

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"gated/internal/test/must"
)

func tree(names ...string) fstest.MapFS {
	out := fstest.MapFS{}
	for _, n := range names {
		out[n] = &fstest.MapFile{}
	}
	return out
}

func TestCount(t *testing.T) {
	t.Parallel()
	root := tree("README.md", "src/a.go", "src/a_test.go", "src/deep/er/b.go", "docs/a.md", "docs/img/x.png", ".git/HEAD")
	for pattern, want := range map[string]int{
		"**": 7, "src/**": 3, "src/": 3, "src/*.go": 2, "**/*.go": 3, "*": 1, "src": 0, "src/a.go": 1, "src/a.go/x": 0, "src/no/*": 0,
		"{src,docs}/*": 3, "no/**": 0, "**/{er,img}/*": 2, ".git/*": 1, "src/deep/er/b.go": 1,
	} {
		n, more := must.Two(Count(root, mustParse(t, pattern), 100))(t, pattern)
		require.Equal(t, want, n, pattern)
		require.False(t, more, pattern)
	}
	p := must.Get(Parse("SRC/*.GO", Options{FoldCase: true}))(t)
	n, more := must.Two(Count(root, p, 100))(t)
	require.False(t, more)
	require.Equal(t, 2, n)
}

// The limit is tried below, at and above the number of files.
func TestCountStopsAtItsLimit(t *testing.T) {
	t.Parallel()
	root := tree("a/1", "a/2", "a/3", "b/4")
	for limit, want := range map[int]int{0: 0, 2: 2, 3: 3, 4: 3} {
		n, more := must.Two(Count(root, mustParse(t, "a/*"), limit))(t)
		require.Equal(t, want, n)
		require.Equal(t, limit < 3, more, "limit %d", limit)
	}
}

// watched is a file system that keeps the names of what is opened.
type watched struct {
	fstest.MapFS
	opened []string
}

func (w *watched) Open(name string) (fs.File, error) {
	w.opened = append(w.opened, name)
	return w.MapFS.Open(name)
}

func TestCountReadsOnlyWhereThePatternLeads(t *testing.T) {
	t.Parallel()
	names := tree("a/b/1", "a/c/d/2", "a/c/e/f/3", "g/h/4")
	for pattern, want := range map[string][]string{
		"a/c/*/2":       {"a/c", "a/c/d", "a/c/e"},
		"a/c/d/2":       nil,
		"{a,g}/b/*":     {".", "a", "a/b", "g"},
		"a/*/2":         {"a", "a/b", "a/c"},
		"a/c/**/f/**/3": {"a/c", "a/c/d", "a/c/e", "a/c/e/f"},
	} {
		w := &watched{MapFS: names}
		_, _, err := Count(w, mustParse(t, pattern), 100)
		require.NoError(t, err)
		require.ElementsMatch(t, want, w.opened, pattern)
	}
}

func TestCountVisitsABoundedNumberOfEntries(t *testing.T) {
	t.Parallel()
	for extra, more := range map[int]bool{-1: false, 0: false, 1: true} {
		root := fstest.MapFS{}
		for i := range MaxVisited + extra {
			root[fmt.Sprintf("%06d", i)] = &fstest.MapFile{}
		}
		n, got := must.Two(Count(root, mustParse(t, "{none,*x}"), 10))(t)
		require.Zero(t, n)
		require.Equal(t, more, got, "%d entries more than the bound", extra)
	}
}

func TestCountFollowsNoSymlink(t *testing.T) {
	t.Parallel()
	dir, outside := t.TempDir(), t.TempDir()
	for _, name := range []string{filepath.Join(dir, "a", "1"), filepath.Join(outside, "2"), filepath.Join(outside, "d", "3")} {
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o700))
		require.NoError(t, os.WriteFile(name, nil, 0o600))
	}
	require.NoError(t, os.Symlink(outside, filepath.Join(dir, "out")))
	require.NoError(t, os.Symlink("a", filepath.Join(dir, "in")))
	require.NoError(t, os.Symlink("..", filepath.Join(dir, "a", "loop")))
	root := must.Get(os.OpenRoot(dir))(t)
	t.Cleanup(func() { require.NoError(t, root.Close()) })
	for pattern, want := range map[string]int{
		"**": 4, "*": 2, "out": 1, "out/**": 1, "out/*": 0, "in/*": 0, "in/1": 0, "out/d/3": 0, "a/loop/a/*": 0, "a/*": 2, // a link is a file
	} {
		n, more := must.Two(Count(root.FS(), mustParse(t, pattern), 100))(t, pattern)
		require.False(t, more, pattern)
		require.Equal(t, want, n, pattern)
	}
}

// unreadable refuses to open one directory.
type unreadable struct {
	fs.FS
	name string
}

func (u unreadable) Open(name string) (fs.File, error) {
	if name == u.name {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
	}
	return u.FS.Open(name)
}

func TestCountOfWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	root := tree("a/1", "b/2", "c/3")
	n, more, err := Count(unreadable{root, "b"}, mustParse(t, "**"), 10)
	require.NoError(t, err)
	require.True(t, more, "b may have more")
	require.Equal(t, 2, n)
	for _, pattern := range []string{"**", "a/*"} {
		_, _, err = Count(unreadable{root, "."}, mustParse(t, pattern), 10)
		require.ErrorIs(t, err, fs.ErrPermission, pattern)
	}
	n, more = must.Two(Count(root, Pattern{}, 10))(t)
	require.False(t, more)
	require.Zero(t, n)
}
