package daemon_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/refusal"
	"gated/internal/host/unit"
)

// unitFiles makes a unit with a drop-in, below a directory of the test's own, and has
// the world's daemons run by it.
func (w *world) unitFiles(cgroup string) (file, dropIn string) {
	w.t.Helper()
	file = filepath.Join(w.dir, "above", "system", "gated.service")
	dropIn = filepath.Join(file+".d", "guests.conf")
	require.NoError(w.t, os.MkdirAll(filepath.Dir(dropIn), 0o755))
	for _, path := range []string{file, dropIn} {
		require.NoError(w.t, os.WriteFile(path, []byte("[Service]\n"), 0o644))
	}
	w.unit = unit.Place{Cgroup: w.file("cgroup", cgroup), Dirs: []string{filepath.Dir(file)}}
	return file, dropIn
}

const ownCgroup = "0::/system.slice/gated.service/daemon\n"

// TestAUnitOfOthersIsRefusedAtStart, its file and its drop-in, in every way.
func TestAUnitOfOthersIsRefusedAtStart(t *testing.T) {
	t.Parallel()
	for _, s := range spoiled {
		for _, name := range []string{"file", "drop-in"} {
			t.Run(name+" "+s.name, func(t *testing.T) {
				w := newUnheard(t)
				w.init()
				path, dropIn := w.unitFiles(ownCgroup)
				if name == "drop-in" {
					path = dropIn
				}
				at := s.do(t, path)
				ctx, cancel := context.WithTimeout(t.Context(), patience) // a daemon that starts is the fault
				defer cancel()
				err := w.run(ctx)
				require.ErrorIs(t, err, refusal.NotAllowed)
				r := refusal.As(err)
				require.True(t, strings.HasPrefix(r.Detail, "gated.service: "), r.Detail)
				require.Contains(t, r.Detail, at)
				require.Contains(t, r.Detail, "(mode ")
				require.True(t, strings.HasSuffix(r.Hint, mends(at, s.name)), r.Hint)
			})
		}
	}
}

// TestAUnitOfOthersChangesNothingAtReload: what was in force stays until the unit is
// root's alone again.
func TestAUnitOfOthersChangesNothingAtReload(t *testing.T) {
	w := newInitialised(t)
	_, dropIn := w.unitFiles(ownCgroup)
	w.serve()
	was := w.status().Policy
	w.config("policy: {max_validity: 1h}\n")
	require.NoError(t, os.Chmod(dropIn, 0o664))
	w.hup()
	h := w.health("settings")
	require.False(t, h.OK)
	require.Contains(t, h.Detail, "gated.service: "+dropIn+" may be written by the group ")
	require.Contains(t, h.Detail, "(mode 0664)")
	require.Contains(t, h.Detail, "chmod go-w "+dropIn)
	require.Equal(t, was, w.status().Policy, "nothing changed")
	require.NoError(t, os.Chmod(dropIn, 0o644))
	w.hup()
	require.True(t, w.health("settings").OK, w.health("settings").Detail)
	require.NotEqual(t, was, w.status().Policy)
	w.halt()
}

// TestAUnitThatDidNotStartTheDaemon is not looked at: the daemon was started from a
// terminal.
func TestAUnitThatDidNotStartTheDaemon(t *testing.T) {
	w := newInitialised(t)
	file, _ := w.unitFiles("0::/user.slice/user-1000.slice/user@1000.service/app.slice/gated.service/tmux-spawn-1.scope\n")
	require.NoError(t, os.Chmod(file, 0o666))
	w.serve()
	w.halt()
}

// TestACgroupThatCannotBeRead leaves the daemon in doubt about its unit.
func TestACgroupThatCannotBeRead(t *testing.T) {
	w := newInitialised(t)
	w.unit = unit.Place{Cgroup: w.dir}
	refused(t, w.run(t.Context()), refusal.NotAllowed, "the daemon's unit cannot be looked at", w.dir)
}
