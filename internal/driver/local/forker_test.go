package local

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"gated/internal/base/op"
	"gated/internal/base/proc"
	"gated/internal/base/refusal"
	"gated/internal/base/seccomp"
	"gated/internal/driver/drivertest"
	"gated/internal/test/forker"
	"gated/internal/test/must"
)

// forkers returns the commands of tests with two forkers: stays has a first process that stays,
// and leaves has one that ends.
func forkers(t *testing.T) func(*Config) {
	t.Helper()
	dir := must.Get(os.MkdirTemp("/tmp", "forker"))(t) // unlike a test's own directory, its parents are open to every user
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, os.Chmod(dir, 0o755))
	program := must.Get(forker.Program(dir))(t)
	return func(c *Config) {
		c.Commands = map[string]Command{"stays": {Argv: forker.Command(program, true)}, "leaves": {Argv: forker.Command(program, false)},
			"sleep": testCommands["sleep"]}
		c.StopGrace = 200 * time.Millisecond
	}
}

// realCgroup returns a new cgroup v2 directory, with or without controllers.
func realCgroup(t *testing.T) string {
	t.Helper()
	needRoot(t, t.Name())
	var root string
	for _, mount := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
		if _, err := os.Stat(mount + "/cgroup.controllers"); err == nil {
			root = mount + "/gated-test-" + strconv.Itoa(os.Getpid()) + "-" + filepath.Base(t.TempDir())
			break
		}
	}
	if root == "" || os.Mkdir(root, 0o755) != nil {
		t.Skipf("%s needs a writable cgroup v2", t.Name())
	}
	t.Cleanup(func() { _ = unix.Rmdir(root) })
	if _, err := os.Stat(root + "/cgroup.kill"); err != nil {
		t.Skipf("%s needs cgroup.kill: %v", t.Name(), err)
	}
	return root
}

// forks waits until the guest's program forks. If something of it is left after the test, forks ends that. The data may be
// elsewhere then.
func (w *world) forks(name string) string {
	w.t.Helper()
	dir := w.path(name, dataDir)
	held := must.Get(os.Open(dir))(w.t)
	w.t.Cleanup(func() {
		defer held.Close()
		here := "/proc/self/fd/" + strconv.Itoa(int(held.Fd()))
		if alive, err := forker.Alive(here); !alive || err != nil || forker.End(here) != nil {
			return
		}
		waitFor(w.t, name+" ends", func() bool { alive, err := forker.Alive(here); return !alive && err == nil })
	})
	waitFor(w.t, name+" forks", func() bool { return forker.Up(dir) })
	return dir
}

// gone checks that no process of a forker is left.
func (w *world) gone(dir, when string) {
	w.t.Helper()
	require.False(w.t, must.Get(forker.Alive(dir))(w.t), "a process of the guest lives after %s", when)
}

// TestNoProcessOutlivesItsGuest: a program leaves its session and forks from parent to child
// without pause. Every way in which a guest ends, with each layer and each kind of proof.
func TestNoProcessOutlivesItsGuest(t *testing.T) {
	needUIDs(t)
	for name, c := range map[string]struct {
		without layers
		group   bool
	}{
		"uid": {}, "uid, no landlock": {without: layers{landlock: true}}, "uid, neither landlock nor seccomp": {without: layers{landlock: true, seccomp: true}},
		"cgroup": {without: layers{uid: true}, group: true}, "uid and cgroup": {group: true},
	} {
		t.Run(name, func(t *testing.T) {
			kind := forkers(t)
			root := ""
			if c.group {
				root = realCgroup(t)
			}
			for how, end := range endings {
				t.Run(how, func(t *testing.T) {
					w := newWorld(t, kind, func(cfg *Config) { cfg.without, cfg.CgroupRoot = c.without, root })
					end(w)
				})
			}
		})
	}
}

// endings are the ways in which a guest ends.
var endings = map[string]func(w *world){
	"stop": func(w *world) {
		w.do("create", "web", "command", "stays", "state", "running")
		dir := w.forks("web")
		w.do("stop", "web")
		w.gone(dir, "a stop")
		require.Equal(w.t, "none", factOf(w.observe("web"), "process"))
		require.NoFileExists(w.t, w.path("web", runFileName))
	},
	"stop after the first process ended": func(w *world) {
		w.do("create", "web", "command", "leaves", "state", "running")
		dir := w.forks("web")
		w.do("stop", "web")
		w.gone(dir, "a stop")
	},
	"destroy": func(w *world) {
		w.do("create", "web", "command", "stays", "state", "running")
		w.forks("web")
		w.do("destroy", "web")
		for _, e := range must.Get(os.ReadDir(w.path(trashDir)))(w.t) {
			if e.IsDir() {
				w.gone(w.path(trashDir, e.Name(), dataDir), "a destroy")
			}
		}
	},
	"wipe": func(w *world) {
		w.do("create", "web", "command", "stays", "state", "running")
		held := must.Get(os.Open(w.forks("web")))(w.t)
		defer held.Close()
		w.do("wipe", "web")
		w.gone("/proc/self/fd/"+strconv.Itoa(int(held.Fd())), "a wipe")
	},
	"swap and restart": func(w *world) {
		w.do("create", "web", "command", "stays", "state", "running")
		dir := w.forks("web")
		w.do("set-config", "web", "command", "sleep")
		w.do("restart", "web")
		w.gone(dir, "a restart")
		w.waitUp("web")
	},
	"start after it ended": func(w *world) {
		w.do("create", "web", "command", "leaves", "state", "running")
		dir := w.forks("web")
		<-w.exited
		w.gone(dir, "its end")
		w.do("set-config", "web", "command", "sleep")
		w.do("start", "web")
		w.waitUp("web")
	},
	"the daemon starts": func(w *world) {
		w.do("create", "web", "command", "stays", "state", "running")
		dir := w.forks("web")
		leader := w.process("web")
		held := must.Get(proc.Open(leader.run.PID, leader.run.Ticks))(w.t)
		defer held.Close()
		require.NoError(w.t, w.d.Close())
		require.NoError(w.t, held.Signal(unix.SIGKILL))
		require.NoError(w.t, held.Wait(w.ctx))
		held.Reap()
		w.open()
		w.gone(dir, "the daemon's start")
		require.Equal(w.t, Stopped, w.observe("web").Running)
	},
	"the daemon starts, and finds it": func(w *world) {
		w.do("create", "web", "command", "stays", "state", "running")
		dir := w.forks("web")
		w.restart()
		w.do("stop", "web")
		w.gone(dir, "a stop")
	},
}

// hiding is a forker of the daemon's own user, without its mark. Only the tie can tell that it
// is there.
func hiding(t *testing.T) func(*Config) {
	kind := forkers(t)
	return func(c *Config) {
		kind(c)
		hides := c.Commands["stays"]
		hides.Argv = append([]string{"/usr/bin/env", "-i"}, hides.Argv...)
		c.Commands["hides"] = hides
		c.Commands["none"] = Command{Argv: []string{"/nowhere/no-such-program"}}
		c.without, c.strayWait = layers{uid: true, landlock: true}, time.Second
		if os.Geteuid() != 0 {
			c.GuestUIDs = UIDRange{}
		}
	}
}

// TestWhatMayBeLeftIsNotGone: a guest runs as the daemon's own user without a cgroup, and what it
// left cannot be found. The kernel still says that it is there. So no stop succeeds, nothing
// is taken, no program takes its place, and it is not called stopped or empty.
func TestWhatMayBeLeftIsNotGone(t *testing.T) {
	if !seccomp.Supported() {
		t.Skipf("%s needs seccomp", t.Name())
	}
	for _, how := range []string{"stop", "first process ends"} {
		t.Run(how, func(t *testing.T) {
			w := newWorld(t, hiding(t))
			w.do("create", "web", "command", "hides", "state", "running")
			dir := w.forks("web")
			defer func() { _ = forker.End(dir) }() // a test that fails leaves nothing
			if how == "stop" {
				require.ErrorIs(t, w.try("stop", "web"), refusal.Conflict)
			} else {
				require.NoError(t, w.process("web").Signal(unix.SIGKILL))
				<-w.exited
			}
			for _, f := range []string{"forker-up", "forker-alive"} {
				require.NoError(t, os.Rename(w.path("web", dataDir, f), filepath.Join(w.root, "..", f)))
			}
			o := w.observe("web")
			require.Equal(t, Running, o.Running)
			require.Empty(t, o.Content, "it may write yet")
			require.Equal(t, "processes of an earlier run do not end", factOf(o, "process"))
			for _, verb := range []string{"stop", "start", "restart"} {
				require.ErrorIs(t, w.try(verb, "web"), refusal.Conflict, verb)
			}
			for _, verb := range []string{"destroy", "wipe"} {
				w.refused(refusal.Conflict, verb, "web")
			}
			require.True(t, must.Get(forker.Alive(filepath.Join(w.root, "..")))(t))

			require.NoError(t, forker.End(dir))
			waitFor(t, "its end", func() bool { return !must.Get(forker.Alive(filepath.Join(w.root, "..")))(t) })
			w.d.cfg.strayWait = killWait
			w.do("stop", "web")
			require.Equal(t, "none", factOf(w.observe("web"), "process"))
			require.Equal(t, Stopped, w.observe("web").Running)
			w.do("destroy", "web")
		})
	}
}

// TestAStopWithoutProofSaysSo: another daemon had started the guest, which has no uid and no
// cgroup of its own.
func TestAStopWithoutProofSaysSo(t *testing.T) {
	w := newWorld(t, hiding(t), func(c *Config) { c.StopGrace = time.Minute })
	w.do("create", "web", "command", "sleep", "state", "running")
	w.waitUp("web")
	w.do("create", "proved", "command", "sleep", "state", "running")
	w.do("stop", "proved")
	require.Equal(t, "none", factOf(w.observe("proved"), "process"))
	w.restart()
	r := must.Get(drivertest.Rehearse(w.ctx, &fakePermit{step: w.step("stop", "web")}, w.d.prepare))(t)
	const doubt = "no process was found, but nothing proves that none is left: it ran as the daemon's own user, without a cgroup"
	require.Equal(t, doubt, r.Detail)
	require.NoError(t, os.Remove(w.path("web", dataDir, "up")))
	for range 2 {
		o := w.observe("web")
		require.Equal(t, doubt, factOf(o, "process"))
		require.Equal(t, Stopped, o.Running)
		require.Empty(t, o.Content)
		require.Equal(t, "none", factOf(w.observe("proved"), "process"))
		w.restart() // and the next daemon knows that, too
	}
	// No later run takes the doubt away, also one that the kernel proves the end of, or one that did not begin. Nor does the trash.
	later := func(o op.Observed) {
		t.Helper()
		require.Equal(t, doubt, factOf(o, "earlier run"))
		require.Equal(t, Running, o.Running)
		require.Empty(t, o.Content)
	}
	for _, verb := range []string{"start", "restart"} {
		r = must.Get(drivertest.Rehearse(w.ctx, &fakePermit{step: w.step(verb, "web")}, w.d.prepare))(t)
		require.Contains(t, r.Detail, doubt, verb)
		w.waitUp("web")
		later(w.observe("web"))
		r = must.Get(drivertest.Rehearse(w.ctx, &fakePermit{step: w.step("stop", "web")}, w.d.prepare))(t)
		require.Equal(t, doubt, r.Detail, verb)
		require.NoError(t, os.Remove(w.path("web", dataDir, "up")))
		require.Empty(t, w.observe("web").Content)
	}
	w.do("set-config", "web", "command", "none")
	require.Error(t, w.try("start", "web"))
	require.Equal(t, doubt, factOf(w.observe("web"), "process"))
	w.do("set-config", "web", "command", "sleep")
	w.do("start", "web")
	w.waitUp("web")
	w.restart()
	later(w.observe("web"))
	r = must.Get(drivertest.Rehearse(w.ctx, &fakePermit{step: w.step("destroy", "web")}, w.d.prepare))(t)
	require.Equal(t, doubt, r.Detail, "a destroy says so, too")
	w.restart()
	w.do("undelete", "web")
	require.Equal(t, doubt, factOf(w.observe("web"), "process"))
	require.NoError(t, os.Remove(w.path("web", runFileName))) // a person has looked
	w.do("start", "web")
	w.waitUp("web")
	w.do("stop", "web")
	require.Equal(t, "none", factOf(w.observe("web"), "process"))
}

// TestABootEndsADoubt: no process lives on into the next boot of the host.
func TestABootEndsADoubt(t *testing.T) {
	w := newWorld(t, hiding(t))
	w.do("create", "web", "command", "sleep", "state", "running")
	w.waitUp("web")
	w.restart()
	w.do("restart", "web")
	w.waitUp("web")
	w.do("stop", "web")
	require.Contains(t, factOf(w.observe("web"), "process"), "nothing proves")
	w.cfg.BootID = "another boot"
	w.restart()
	require.Equal(t, "none", factOf(w.observe("web"), "process"))
	require.NoFileExists(t, w.path("web", runFileName))
}

// TestARunThatNoDaemonSawIsTakenUp: a person moves a guest away, starts the daemon, and moves the guest back. Its program forks on.
func TestARunThatNoDaemonSawIsTakenUp(t *testing.T) {
	needUIDs(t)
	group := realCgroup(t)
	for name, kind := range map[string]func(*Config){"uid": func(*Config) {},
		"cgroup": func(c *Config) { c.without, c.CgroupRoot = layers{uid: true}, group }} {
		for _, verb := range []string{"stop", "destroy", "start", "restart"} {
			t.Run(name+", "+verb, func(t *testing.T) {
				w := newWorld(t, forkers(t), kind)
				w.do("create", "web", "command", "stays", "state", "running")
				data := must.Get(os.Open(w.forks("web")))(t)
				defer data.Close()
				pid := w.process("web").run.PID
				w.away("web", func() {})
				w.do(verb, "web")
				if verb == "start" {
					require.Equal(t, pid, w.process("web").run.PID, "it runs already")
					w.do("stop", "web")
				}
				if verb == "restart" {
					require.NotEqual(t, pid, w.process("web").run.PID)
					w.do("stop", "web")
				}
				w.gone("/proc/self/fd/"+strconv.Itoa(int(data.Fd())), verb)
			})
		}
	}
	t.Run("own user, its first process ended", func(t *testing.T) {
		w := newWorld(t, hiding(t))
		w.do("create", "web", "command", "sleep", "state", "running")
		w.waitUp("web")
		leader := w.process("web")
		held := must.Get(proc.Open(leader.run.PID, leader.run.Ticks))(t)
		defer held.Close()
		w.away("web", func() {
			require.NoError(t, held.Signal(unix.SIGKILL))
			require.NoError(t, held.Wait(w.ctx))
			held.Reap()
		})
		w.do("start", "web")
		require.Contains(t, factOf(w.observe("web"), "earlier run"), "nothing proves")
	})
}

// away starts the daemon while a guest's directory is elsewhere.
func (w *world) away(name string, meanwhile func()) {
	w.t.Helper()
	aside := filepath.Join(w.root, "..", "aside")
	require.NoError(w.t, w.d.Close())
	require.NoError(w.t, os.Rename(w.path(name), aside))
	meanwhile()
	w.open()
	require.NoError(w.t, os.Rename(aside, w.path(name)))
}

// TestAStepThatIsPreparedEndsNothing: a destroy, wipe or restore asks for processes of an earlier
// run before its permit is used. What runs now goes on if the permit is refused.
func TestAStepThatIsPreparedEndsNothing(t *testing.T) {
	w := newWorld(t)
	w.do("create", "web", "command", "family", "state", "running")
	w.waitUp("web")
	w.do("snapshot", "web", "snapshot", "s")
	child, stray := w.pidIn("web", dataDir, "child"), w.pidIn("web", dataDir, "stray")
	for verb, kv := range map[string][]any{"destroy": nil, "wipe": nil, "restore": {"snapshot", "s"}, "stop": nil, "restart": nil, "start": nil} {
		p := &fakePermit{step: w.step(verb, "web", kv...), refuse: refusal.New(refusal.NotAllowed, "no")}
		require.ErrorIs(t, w.d.did(w.ctx, p), refusal.NotAllowed, verb)
		require.Equal(t, Running, w.observe("web").Running, verb)
		for _, pid := range []int{w.process("web").run.PID, child, stray} {
			require.True(t, exists(pid) && !zombie(pid), "%s ended process %d", verb, pid)
		}
	}
}

// TestAUserNamespaceIsNoWayOut: without the filter a guest's program can be root in a user
// namespace of its own. To the kernel it still has the uid of its guest.
func TestAUserNamespaceIsNoWayOut(t *testing.T) {
	needUIDs(t)
	program, err := exec.LookPath("unshare")
	if err != nil {
		t.Skipf("%s needs unshare", t.Name())
	}
	w := newWorld(t, forkers(t), func(c *Config) {
		stays := c.Commands["stays"]
		stays.Argv = append([]string{program, "-U", "-r"}, stays.Argv...)
		c.Commands["stays"], c.without = stays, layers{landlock: true, seccomp: true}
	})
	probe := exec.Command(program, "-U", "-r", "true")
	probe.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: w.cfg.GuestUIDs.Last, Gid: w.cfg.GuestUIDs.Last, NoSetGroups: true}}
	if probe.Run() != nil {
		t.Skipf("%s needs a kernel that lets every user make a user namespace", t.Name())
	}
	endings["stop"](w)
}
