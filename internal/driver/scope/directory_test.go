package scope

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"gated/internal/agents/reserve"
	"gated/internal/test/must"
)

// placeOf is a directory as a caller would register it.
func placeOf(t *testing.T, path string) reserve.Place {
	t.Helper()
	st := must.Get(lstat(path))(t)
	return reserve.Place{Path: path, Device: st.Dev, Inode: st.Ino}
}

func TestAtTheDirectoryItself(t *testing.T) {
	base := t.TempDir()
	path := filepath.Join(base, "repo")
	require.NoError(t, os.Mkdir(path, 0o755))
	place := placeOf(t, path)
	e := newEyes(lstat)
	is := func(want sight) {
		t.Helper()
		require.Equal(t, want, must.Get(e.at(t.Context(), place))(t))
	}
	is(sight{})
	require.NoError(t, os.WriteFile(filepath.Join(path, "x"), nil, 0o600))
	is(sight{})

	aside := filepath.Join(base, "aside")
	require.NoError(t, os.Rename(path, aside))
	is(sight{hidden: "for the daemon there is nothing at this path"})
	require.NoError(t, os.Symlink("aside", path))
	is(sight{another: true}) // also a link to the same directory
	require.NoError(t, os.Remove(path))
	require.NoError(t, os.Mkdir(path, 0o755))
	is(sight{another: true})
	require.NoError(t, os.Remove(path))
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	is(sight{another: true})
	require.NoError(t, os.Remove(path))
	require.NoError(t, os.Rename(aside, path))
	is(sight{})

	place.Path = filepath.Join(path, "x", "below a file")
	is(sight{another: true})
	place.Path = path
	place.Device++
	is(sight{another: true})
}

func TestAtWhereTheDaemonIsBlind(t *testing.T) {
	for _, c := range []struct {
		err  error
		want sight
		fail bool
	}{
		{unix.EACCES, sight{hidden: "the daemon may not look there"}, false},
		{unix.EPERM, sight{hidden: "the daemon may not look there"}, false},
		{unix.ENOENT, sight{hidden: "for the daemon there is nothing at this path"}, false},
		{unix.ELOOP, sight{another: true}, false},
		{unix.ENOTDIR, sight{another: true}, false},
		{unix.EIO, sight{}, true},
		{unix.ENAMETOOLONG, sight{}, true},
		{errors.New("something"), sight{}, true},
	} {
		e := newEyes(func(string) (unix.Stat_t, error) { return unix.Stat_t{}, c.err })
		got, err := e.at(t.Context(), reserve.Place{Path: "/repo"})
		require.Equal(t, c.fail, err != nil, "%v", c.err)
		require.Equal(t, c.want, got, "%v", c.err)
	}
}

// TestAtWhatNeverAnswers: a look at a hung file system takes at most maxLooking. Any number of
// looks at it takes at most maxStuck goroutines. A look that returns frees its place.
func TestAtWhatNeverAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stuck := make(chan struct{})
		var calls atomic.Int32
		e := newEyes(func(string) (unix.Stat_t, error) {
			calls.Add(1)
			<-stuck
			return unix.Stat_t{Mode: unix.S_IFDIR, Dev: 1, Ino: 2}, nil
		})
		repo := reserve.Place{Path: "/repo", Device: 1, Inode: 2}
		for range maxStuck + 3 {
			got := must.Get(e.at(t.Context(), repo))(t)
			require.Equal(t, sight{hidden: "the file system does not answer"}, got)
		}
		require.EqualValues(t, maxStuck, calls.Load())
		close(stuck)
		synctest.Wait()
		require.Equal(t, sight{}, must.Get(e.at(t.Context(), repo))(t))

		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		must.Fail(e.at(ctx, repo))(t, context.Canceled, "a caller who went away learns nothing")
	})
}

// The same path on this host is another directory than that of another member, and says nothing about it.
func TestADirectoryOfAnotherMemberIsNotLookedAt(t *testing.T) {
	place := placeOf(t, t.TempDir())
	place.Inode++
	d := New(nil, "node1")
	for in, want := range map[string]sight{"node1": {another: true}, "node2": {hidden: "it is a path of node2"}, "web": {hidden: "it is a path of web"},
		"": {hidden: "it is from before the gate had members"}} {
		place.In = in
		require.Equal(t, want, must.Get(d.look(t.Context(), place))(t), in)
	}
	place.In = ""
	require.Equal(t, sight{another: true}, must.Get(New(nil, "").look(t.Context(), place))(t))
}
