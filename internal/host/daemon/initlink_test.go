package daemon_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/refusal"
	"gated/internal/host/life"
	"gated/internal/test/must"
)

// TestInitFollowsNoLinkThatAppears: at each step of init something appears under
// the name that it is about to make. It is refused, and where it leads stays as
// it is.
func TestInitFollowsNoLinkThatAppears(t *testing.T) {
	var steps []string
	w := newWorld(t)
	state := func(dir string) string { return filepath.Join(dir, "a", "b", "state") }
	o := w.options()
	o.StateDir = state(w.dir)
	o.Before = func(path string) { steps = append(steps, path[len(w.dir):]) }
	must.Get(life.Init(t.Context(), o))(t)
	require.Equal(t, []string{"/a", "/a/b", "/a/b/state", "/a/b/state/lock", "/a/b/state/gated.yaml", "/a/b/state/allowed_signers", "/a/b/state/gated.db"}, steps)

	for _, step := range steps {
		for name, appear := range map[string]func(w *world, path, theirs string){
			"a link to a directory": func(w *world, path, theirs string) { require.NoError(w.t, os.Symlink(theirs, path)) },
			"a link to a file":      func(w *world, path, theirs string) { require.NoError(w.t, os.Symlink(theirs+"/precious", path)) },
			"a link to nothing":     func(w *world, path, theirs string) { require.NoError(w.t, os.Symlink(theirs+"/new", path)) },
			"a file":                func(w *world, path, theirs string) { require.NoError(w.t, os.WriteFile(path, []byte("theirs"), 0o666)) },
			"another name of a file": func(w *world, path, theirs string) {
				require.NoError(w.t, os.Link(theirs+"/precious", path))
			},
			"a directory of others": func(w *world, path, theirs string) {
				require.NoError(w.t, os.Mkdir(path, 0o755))
				if os.Geteuid() == 0 {
					require.NoError(w.t, os.Chown(path, 4242, -1))
				} else {
					require.NoError(w.t, os.WriteFile(filepath.Join(path, "x"), nil, 0o600))
				}
			},
			"another state directory": func(w *world, path, _ string) { swap(w, path) },
		} {
			t.Run(fmt.Sprintf("%s at %s", name, filepath.Base(step)), func(t *testing.T) {
				w := newWorld(t)
				theirs := filepath.Join(w.dir, "theirs")
				require.NoError(t, os.Mkdir(theirs, 0o755))
				for name, mode := range map[string]os.FileMode{"precious": 0o644, "lock": 0o644, "other": 0o600} {
					require.NoError(t, os.WriteFile(filepath.Join(theirs, name), []byte(name), mode))
				}
				before := tree(t, theirs)
				o := w.options()
				o.StateDir = state(w.dir)
				o.Before = func(path string) {
					if path == w.dir+step {
						appear(w, path, theirs)
					}
				}
				_, err := life.Init(t.Context(), o)
				if name == "a file" && filepath.Base(step) == "lock" && err == nil {
					return // a lock that is there is locked, as it is
				}
				require.Error(t, err)
				require.Contains(t, []refusal.Code{refusal.NotAllowed, refusal.Conflict}, refusal.CodeOf(err), "%v", err)
				require.Equal(t, before, tree(t, theirs), "%v", err)
				_, err = os.Lstat(filepath.Join(state(w.dir), "gated.db"))
				if filepath.Base(step) != "gated.db" && name != "another state directory" {
					require.Error(t, err, "no database was made")
				}
			})
		}
	}
}

// swap puts another directory in the place of the one that a path is in.
func swap(w *world, path string) {
	w.t.Helper()
	dir := filepath.Dir(path)
	if dir == w.dir { // the test's own
		require.NoError(w.t, os.Mkdir(path, 0o755))
		return
	}
	require.NoError(w.t, os.Rename(dir, dir+".moved"))
	require.NoError(w.t, os.Symlink(filepath.Join(w.dir, "theirs"), dir))
}
