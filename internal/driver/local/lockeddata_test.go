package local

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"gated/internal/base/op"
	"gated/internal/test/must"

	"github.com/stretchr/testify/require"
)

// asAnotherUser runs the calling test again as the user nobody, because permissions do not bind
// root. It reports whether it did; then the calling test ends. If an ordinary user runs the
// test, the test itself goes on.
func asAnotherUser(t *testing.T) bool {
	t.Helper()
	if os.Geteuid() != 0 {
		if switches() {
			t.Skipf("%s needs a user without capabilities", t.Name())
		}
		return false
	}
	const nobody = 65534
	tmp, err := os.MkdirTemp("", "nobody") // beside t.TempDir, because its parents are root's
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(tmp) })
	require.NoError(t, os.Chown(tmp, nobody, nobody))
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.v", "-test.run=^"+t.Name()+"$")
	cmd.Dir, cmd.Env = tmp, append(os.Environ(), "TMPDIR="+tmp)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "--- PASS: "+t.Name(), "it did not run")
	return true
}

func factOf(o op.Observed, name string) string {
	for _, f := range o.Facts {
		if f.Name == name {
			return f.Text
		}
	}
	return ""
}

// TestAGuestThatLocksItsData observes, stops, destroys, undeletes and deletes such a guest like
// any other.
func TestAGuestThatLocksItsData(t *testing.T) {
	if asAnotherUser(t) {
		return
	}
	w := newWorld(t, withCommand("lock", sh("mkdir sub; echo x > sub/file; chmod 000 .; exec sleep 1000")))
	w.do("create", "web", "command", "lock", "state", "running")
	waitFor(t, "data is locked", func() bool {
		info, err := os.Stat(w.path("web", dataDir))
		return err == nil && info.Mode().Perm() == 0
	})
	o := w.observe("web")
	require.Equal(t, Running, o.Running)
	require.Equal(t, "cannot be counted: permission denied", factOf(o, "files"))
	require.Equal(t, "none", factOf(o, "snapshots"))
	w.do("stop", "web")
	require.Equal(t, Stopped, w.observe("web").Running)
	w.do("destroy", "web")
	w.do("undelete", "web")
	require.Equal(t, o.Incarnation, w.observe("web").Incarnation)
	w.do("destroy", "web")
	w.pass(DefaultTrashKeep + time.Second)
	require.NoError(t, w.d.Sweep(w.ctx))
	require.Empty(t, entries(t, w.path(trashDir)))
}

// TestLockedBelowData counts the entries that can be read.
func TestLockedBelowData(t *testing.T) {
	if asAnotherUser(t) {
		return
	}
	for name, mode := range map[string]os.FileMode{"unreadable": 0o300, "unsearchable": 0o600, "closed": 0} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.do("create", "web")
			w.write("x", "web", dataDir, "open", "file")
			w.write("x", "web", dataDir, "sub", "file")
			sub := w.path("web", dataDir, "sub")
			require.NoError(t, os.Chmod(sub, mode))
			t.Cleanup(func() { _ = os.Chmod(sub, 0o700) })
			require.Equal(t, "more than 1", factOf(w.observe("web"), "files"))
			d := must.Get(openDir(filepath.Dir(sub)))(t)
			defer d.close()
			u := must.Get(measure(t.Context(), d, 10))(t)
			require.Equal(t, "sub cannot be read", u.obstacle)
		})
	}
}

// TestFactsFailNothing: each reason why facts are missing is itself a fact.
func TestFactsFailNothing(t *testing.T) {
	w := newWorld(t)
	w.do("create", "web")
	w.write("x", "web", dataDir, "file")
	g := must.Get(w.d.openGuest("web"))(t)
	defer g.close()
	require.NoError(t, os.Rename(w.path("web", dataDir), w.path("web", "elsewhere")))
	o := op.Observed{Facts: w.d.facts(w.ctx, g)}
	require.Equal(t, "cannot be counted: no such file or directory", factOf(o, "files"))
	require.NotEmpty(t, factOf(o, "destroy"))
	require.NoError(t, os.Rename(w.path("web", "elsewhere"), w.path("web", dataDir)))

	ended, cancel := context.WithCancel(w.ctx)
	cancel()
	o = must.Get(w.d.Observe(ended, op.At(target("web"))))(t)
	require.Equal(t, "more than 0", factOf(o, "files"))
}
