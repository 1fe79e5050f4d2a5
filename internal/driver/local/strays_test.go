package local

import (
	"os/exec"
	"syscall"
	"testing"
	"time"

	"gated/internal/base/op"
	"gated/internal/base/proc"
	"gated/internal/base/refusal"
	"gated/internal/driver"
	"gated/internal/test/must"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestOneLostGuestDoesNotStopTheDaemon: the guest's processes do not end in the time that New
// waits for them. The guest's own start and stop report that, and try again.
func TestOneLostGuestDoesNotStopTheDaemon(t *testing.T) {
	for _, verb := range []string{"stop", "start"} {
		t.Run(verb, func(t *testing.T) {
			w := newWorld(t)
			w.do("create", "web", "command", "family", "state", "running")
			w.do("create", "other", "command", "sleep")
			w.waitUp("web")
			leader := w.process("web")
			held := must.Get(proc.Open(leader.run.PID, leader.run.Ticks))(t)
			defer held.Close()
			require.NoError(t, w.d.Close())
			require.NoError(t, held.Signal(unix.SIGKILL))
			require.NoError(t, held.Wait(w.ctx))
			held.Reap()

			w.cfg.strayWait = time.Nanosecond
			w.open()
			require.Contains(t, w.log.String(), "processes of an earlier run do not end")
			require.Contains(t, factOf(w.observe("web"), "process"), "do not end")
			require.FileExists(t, w.path("web", runFileName), "the next daemon has to know, too")
			w.do("start", "other")

			// This process has the guest's mark, and New does not wait for its end.
			again := startMarked(t, w.observe("web").Incarnation)
			err := w.try(verb, "web")
			require.ErrorIs(t, err, refusal.Conflict)
			require.False(t, driver.IsTransient(err) || driver.IsUnknown(err))
			require.False(t, again.Ended())

			w.d.cfg.strayWait = killWait
			w.do(verb, "web")
			require.True(t, again.Ended())
			require.NotContains(t, factOf(w.observe("web"), "process"), "do not end")
		})
	}
}

// TestANewGuestStaysWithItsProcesses: a create whose start was given up may have left processes. Its guest has to stay, because
// only a step about it can end them.
func TestANewGuestStaysWithItsProcesses(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.strayWait = time.Nanosecond })
	w.do("create", "web", "command", "sleep")
	g := must.Get(w.d.openGuest("web"))(t)
	defer g.close()
	w.d.lost.add(lostGuest{name: "web", inc: g.incarnation(), verdict: verdict{err: unix.EAGAIN}})
	require.True(t, driver.IsUnknown(w.d.startNew(w.ctx, target("web"), g.spec)))
	w.d.cfg.strayWait = killWait
	w.do("create", "db", "command", "sleep")
	db := must.Get(w.d.openGuest("db"))(t)
	defer db.close()
	require.NoError(t, w.d.startNew(w.ctx, target("db"), db.spec))
}

// startMarked starts a process with a guest's mark.
func startMarked(t *testing.T, inc op.Incarnation) *proc.FD {
	t.Helper()
	var fd int
	cmd := exec.Command("/bin/sleep", "1000")
	cmd.Env = []string{markOf(inc)}
	cmd.SysProcAttr = &syscall.SysProcAttr{PidFD: &fd}
	require.NoError(t, cmd.Start())
	p := must.Get(proc.NewFD(fd))(t)
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait(); p.Close() })
	return p
}
