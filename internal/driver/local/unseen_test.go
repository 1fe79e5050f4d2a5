package local

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"gated/internal/base/op"
	"gated/internal/base/proc"
	"gated/internal/test/forker"
	"gated/internal/test/must"
)

// putBack starts the daemon while a person has the guest's directory elsewhere, and then puts it back. If ended is true, the
// guest's first process ends meanwhile.
func (w *world) putBack(name string, ended bool) {
	w.t.Helper()
	leader := w.process(name)
	held := must.Get(proc.Open(leader.run.PID, leader.run.Ticks))(w.t)
	w.t.Cleanup(func() { _ = held.SignalGroup(unix.SIGKILL); held.Close() }) // a test that fails leaves nothing
	w.away(name, func() {
		if ended {
			require.NoError(w.t, held.Signal(unix.SIGKILL))
			require.NoError(w.t, held.Wait(w.ctx))
			held.Reap()
		}
	})
}

// seen checks what a look and a list say, and that both leave the guest as it is.
func (w *world) seen(name, running, process string) op.Observed {
	w.t.Helper()
	before := w.hash()
	o := w.observe(name)
	require.Equal(w.t, running, o.Running)
	require.Contains(w.t, factOf(o, "process"), process)
	for _, listed := range must.Get(w.d.List(w.ctx))(w.t) {
		if listed.Target == o.Target {
			require.Equal(w.t, running, listed.Running)
			require.Equal(w.t, o.Content, listed.Content)
			require.Equal(w.t, o.MemoryUsed > 0, listed.MemoryUsed > 0)
		}
	}
	require.Equal(w.t, before, w.hash(), "a look changed something")
	return o
}

// TestAGuestThatWasPutBackIsNotCalledStopped: its run goes on, and no daemon has looked at it.
func TestAGuestThatWasPutBackIsNotCalledStopped(t *testing.T) {
	kinds := map[string]func(*Config){"own user": func(c *Config) { c.without = layers{uid: true} }}
	if switches() {
		kinds["uid"] = func(*Config) {}
	}
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, kind)
			w.do("create", "web", "command", "sleep", "state", "running")
			w.waitUp("web")
			pid := w.process("web").run.PID
			require.NoError(t, os.Remove(w.path("web", dataDir, "up")))
			w.putBack("web", false)
			o := w.seen("web", Running, "sleep, running since")
			require.Empty(t, o.Content, "it may write yet")
			require.NotEmpty(t, factOf(o, op.FactLimits))
			require.True(t, exists(pid))

			p := &fakePermit{step: w.step("start", "web")}
			require.NoError(t, w.d.did(w.ctx, p))
			require.Equal(t, Running, p.seen.Running, "so the undo of this start stops nothing")
			require.Equal(t, pid, w.process("web").run.PID)
			w.do("stop", "web")
			require.False(t, exists(pid) && !zombie(pid))
			require.Equal(t, Stopped, w.observe("web").Running)
		})
	}
}

// TestWhatAPutBackGuestHolds: a limit below that would end programs of it at once.
func TestWhatAPutBackGuestHolds(t *testing.T) {
	w := newWorld(t)
	w.do("create", "web", "command", "sleep", "state", "running")
	w.waitUp("web")
	// The directory stands for the guest's cgroup, whose file says what its programs hold.
	w.cfg.CgroupRoot = t.TempDir()
	group := filepath.Join(w.cfg.CgroupRoot, "guest-"+w.observe("web").Birth)
	require.NoError(t, os.Mkdir(group, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(group, "memory.stat"), []byte("anon 104857600\n"), 0o600))
	for _, file := range []string{"cgroup.controllers", "cgroup.subtree_control"} {
		require.NoError(t, os.WriteFile(filepath.Join(w.cfg.CgroupRoot, file), []byte("memory"), 0o600))
	}
	w.putBack("web", false)
	require.EqualValues(t, 100, w.seen("web", Running, "running since").MemoryUsed)
	p := &fakePermit{step: w.step("set-config", "web", "memory", int64(64)), refuse: os.ErrPermission}
	require.ErrorIs(t, w.d.did(w.ctx, p), os.ErrPermission)
	require.EqualValues(t, 100, p.seen.MemoryUsed)
	w.do("stop", "web")
	require.Zero(t, w.observe("web").MemoryUsed)
}

// TestWhatAPutBackGuestLeft: its first process has ended. A look says what is proved of the others, and ends none.
func TestWhatAPutBackGuestLeft(t *testing.T) {
	const doubt = "nothing proves that none is left: " + ownUserDoubt
	own := func(c *Config) { c.without = layers{uid: true} }
	t.Run("a marked process", func(t *testing.T) {
		w := newWorld(t, own)
		w.do("create", "web", "command", "family", "state", "running")
		w.waitUp("web")
		stray := w.pidIn("web", dataDir, "stray")
		w.putBack("web", true)
		for range 2 {
			require.Empty(t, w.seen("web", Running, "processes of an earlier run are left").Content)
			require.True(t, exists(stray) && !zombie(stray), "a look ended it")
		}
		w.do("stop", "web")
		require.False(t, exists(stray) && !zombie(stray))
		w.seen("web", Stopped, doubt)
	})
	t.Run("none that a look finds", func(t *testing.T) {
		w := newWorld(t, own)
		w.do("create", "web", "command", "sleep", "state", "running")
		w.waitUp("web")
		require.NoError(t, os.Remove(w.path("web", dataDir, "up")))
		w.putBack("web", true)
		require.Empty(t, w.seen("web", Stopped, doubt).Content)
		w.do("start", "web")
		require.Contains(t, factOf(w.observe("web"), "earlier run"), doubt)
	})
	t.Run("a run file that nobody can read", func(t *testing.T) {
		w := newWorld(t)
		w.do("create", "web", "command", "sleep", "state", "running")
		w.waitUp("web")
		w.putBack("web", true)
		w.write("{", "web", runFileName)
		w.seen("web", Stopped, unknownUserDoubt)
		w.do("stop", "web")
		w.seen("web", Stopped, unknownUserDoubt)
	})
	t.Run("the host started again", func(t *testing.T) {
		w := newWorld(t, own)
		w.do("create", "web", "command", "sleep", "state", "running")
		w.waitUp("web")
		require.NoError(t, os.Remove(w.path("web", dataDir, "up")))
		w.cfg.BootID = "another boot"
		w.putBack("web", true)
		require.Equal(t, "nothing", w.seen("web", Stopped, "none").Content)
	})
	t.Run("uid", func(t *testing.T) {
		needUIDs(t)
		w := newWorld(t, forkers(t))
		w.do("create", "web", "command", "stays", "state", "running")
		data := must.Get(os.Open(w.forks("web")))(t)
		defer data.Close()
		w.putBack("web", true)
		w.seen("web", Running, "processes of an earlier run are left")
		require.True(t, must.Get(forker.Alive(w.path("web", dataDir)))(t), "a look ended it")
		w.do("stop", "web")
		w.seen("web", Stopped, "none")
		w.gone(w.path("web", dataDir), "a stop")

		w.do("set-config", "web", "command", "sleep")
		w.do("start", "web")
		w.waitUp("web")
		uid := w.process("web").uid
		w.putBack("web", true)
		w.seen("web", Stopped, "none")
		require.FileExists(t, w.path("web", runFileName), "the kernel said so, and no step")
		other := exec.Command("/bin/sleep", "1000")
		other.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid, NoSetGroups: true}}
		require.NoError(t, other.Start())
		defer func() { _ = other.Process.Kill(); _ = other.Wait() }()
		w.seen("web", Running, "processes of an earlier run are left")
	})
	t.Run("cgroup", func(t *testing.T) {
		needUIDs(t)
		group := realCgroup(t)
		w := newWorld(t, forkers(t), own, func(c *Config) { c.CgroupRoot = group })
		w.do("create", "web", "command", "stays", "state", "running")
		dir := w.forks("web")
		w.putBack("web", true)
		w.seen("web", Running, "processes of an earlier run are left")
		require.True(t, must.Get(forker.Alive(dir))(t), "a look ended it")
		w.do("stop", "web")
		w.seen("web", Stopped, "none")
	})
}

// TestALookKeepsThePidOfAStart: a start puts its child's pid into a cgroup. Until then no other process may get that pid.
func TestALookKeepsThePidOfAStart(t *testing.T) {
	w := newWorld(t)
	g, p, files, err := w.launched(w.ctx, "web", "sleep")
	require.NoError(t, err)
	require.NoError(t, p.Signal(unix.SIGKILL))
	require.NoError(t, p.Wait(w.ctx))
	w.observe("web")
	must.Get(w.d.List(w.ctx))(t)
	require.True(t, zombie(p.run.PID), "a look collected it")
	require.NoError(t, w.d.giveUp(w.ctx, g, p, files))
	require.False(t, exists(p.run.PID))
}

// TestAGuestOutOfTheTrashByHand: its doubt comes with it, as with an undelete.
func TestAGuestOutOfTheTrashByHand(t *testing.T) {
	w := newWorld(t, hiding(t))
	w.do("create", "web", "command", "sleep", "state", "running")
	w.waitUp("web")
	w.restart() // the tie ends with the daemon
	w.do("destroy", "web")
	id := trashName("web", w.observe("web").Trash[0].Incarnation)
	for range 2 {
		require.NoError(t, os.Rename(w.path(trashDir, id), w.path("web")))
		require.Empty(t, w.seen("web", Stopped, "nothing proves").Content)
		require.NoError(t, os.Rename(w.path("web"), w.path(trashDir, id)))
		w.restart()
	}
}

// TestAProofOutlivesAMove: the kernel proves the end of a run while the guest's directory has another place. The run file there
// says nothing else.
func TestAProofOutlivesAMove(t *testing.T) {
	own := func(c *Config) { c.without = layers{uid: true} }
	up := func(t *testing.T) *world {
		w := newWorld(t, own)
		w.do("create", "web", "command", "sleep", "state", "running")
		w.waitUp("web")
		return w
	}
	again := func(w *world, name string) {
		w.seen(name, Stopped, "none")
		require.NoError(w.t, os.Remove(w.path(name, dataDir, "up"))) // of the run before
		w.do("start", name)
		w.waitUp(name)
		w.seen(name, Running, "running since")
		require.Empty(w.t, factOf(w.observe(name), "earlier run"))
		w.do("stop", name)
		w.seen(name, Stopped, "none")
	}
	t.Run("another name", func(t *testing.T) {
		w := up(t)
		require.NoError(t, os.Rename(w.path("web"), w.path("other")))
		w.seen("other", Running, "running since")
		w.do("stop", "other")
		require.FileExists(t, w.path("other", runFileName))
		again(w, "other")
	})
	t.Run("away, and back", func(t *testing.T) {
		w := up(t)
		p := w.process("web")
		aside := filepath.Join(w.root, "..", "aside")
		require.NoError(t, os.Rename(w.path("web"), aside))
		require.NoError(t, p.Signal(unix.SIGKILL))
		<-w.exited
		require.NoError(t, os.Rename(aside, w.path("web")))
		require.FileExists(t, w.path("web", runFileName))
		again(w, "web")
	})
	t.Run("another run", func(t *testing.T) {
		w := up(t)
		p := w.process("web")
		for _, other := range []runFile{{PID: p.run.PID + 1, Ticks: p.run.Ticks, BootID: p.run.BootID}, {PID: p.run.PID, Ticks: p.run.Ticks + 1, BootID: p.run.BootID},
			{PID: p.run.PID, Ticks: p.run.Ticks, BootID: "another boot"}} {
			w.d.lost.ended(p.inc, other)
			require.False(t, w.d.lost.hasEnded(p.inc, p.run))
		}
		w.d.lost.ended("another guest", p.run)
		require.False(t, w.d.lost.hasEnded(p.inc, p.run))
	})
}
