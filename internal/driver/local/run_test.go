package local

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"gated/internal/base/proc"
	"gated/internal/base/refusal"
	"gated/internal/driver"
	"gated/internal/driver/drivertest"
	"gated/internal/test/must"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// sh is a command that runs a shell script with a PATH.
func sh(script string) Command {
	return Command{Argv: []string{"/bin/sh", "-c", script}, Env: map[string]string{"PATH": "/usr/bin:/bin"}}
}

func withCommand(name string, c Command) func(*Config) {
	return func(cfg *Config) { cfg.Commands = map[string]Command{name: c} }
}

func (w *world) process(name string) *process {
	w.t.Helper()
	p := w.d.procs.get(w.observe(name).Incarnation)
	require.NotNil(w.t, p, "%s does not run", name)
	return p
}

func exists(pid int) bool { return unix.Kill(pid, 0) == nil }

// pidIn reads a pid that a guest wrote.
func (w *world) pidIn(parts ...string) int {
	w.t.Helper()
	return must.Get(strconv.Atoi(strings.TrimSpace(w.content(parts...))))(w.t)
}

func TestStartStop(t *testing.T) {
	w := newWorld(t)
	w.do("create", "web", "command", "sleep")
	require.Equal(t, Stopped, w.observe("web").Running)
	w.do("start", "web")
	require.Equal(t, Running, w.observe("web").Running)
	w.waitUp("web")
	pid := w.process("web").run.PID
	w.do("start", "web") // a second start changes nothing
	require.Equal(t, pid, w.process("web").run.PID)
	w.do("restart", "web")
	require.NotEqual(t, pid, w.process("web").run.PID)
	require.Equal(t, target("web"), <-w.exited)
	w.do("stop", "web")
	require.Equal(t, Stopped, w.observe("web").Running)
	require.Equal(t, target("web"), <-w.exited)
	w.do("stop", "web")
	w.do("restart", "web") // of a stopped guest, this is a start
	require.Equal(t, Running, w.observe("web").Running)
}

func TestCreateRunning(t *testing.T) {
	w := newWorld(t)
	w.do("create", "web", "command", "sleep", "state", "running")
	require.Equal(t, Running, w.observe("web").Running)
	w.waitUp("web")

	// A guest that cannot start is not made.
	before := w.hash()
	p := &fakePermit{step: w.step("create", "bad", "command", "none", "state", "running")}
	err := w.d.did(w.ctx, p)
	require.ErrorContains(t, err, "exec /nowhere/no-such-program: no such file or directory")
	require.False(t, driver.IsUnknown(err) || driver.IsTransient(err))
	require.NotNil(t, p.seen)
	require.Equal(t, before, w.hash())

	w.refused(refusal.Conflict, "create", "x", "state", "running")
	w.refused(refusal.NotAllowed, "create", "x", "command", "other")
}

func TestStartRefusals(t *testing.T) {
	w := newWorld(t)
	w.do("create", "web")
	w.refused(refusal.Conflict, "start", "web")
	w.refused(refusal.Conflict, "restart", "web")
	w.refused(refusal.NotAllowed, "set-config", "web", "command", "other")
	w.refused(refusal.UnknownTarget, "start", "nobody")
	w.do("set-config", "web", "command", "sleep")
	w.cfg.Commands = map[string]Command{}
	w.restart()
	require.Contains(t, w.refused(refusal.NotAllowed, "start", "web").Error(), "local.commands")
	w.do("set-config", "web", "command", "") // the wish for no process
	w.refused(refusal.Conflict, "start", "web")
}

// TestNoCommandRunsAsTheDaemon: a command needs a user or guest_uids. single_user allows it to
// run as the daemon's own user, but never as root.
func TestNoCommandRunsAsTheDaemon(t *testing.T) {
	for _, c := range []struct {
		single, uids, user bool
		ok                 bool
	}{
		{ok: false}, {single: true, ok: os.Geteuid() != 0}, {uids: true, ok: true}, {user: true, ok: true}, {single: true, uids: true, ok: true},
	} {
		w := newWorld(t, func(cfg *Config) {
			cfg.SingleUser = c.single
			if !c.uids {
				cfg.GuestUIDs = UIDRange{}
			}
		})
		if c.uids && !switches() {
			continue // New refuses it
		}
		w.do("create", "web", "command", "sleep")
		if c.user {
			w.d.accounts["sleep"] = account{Switch: true}
			require.NoError(t, w.d.checkRunnable(target("web"), spec{Command: "sleep"}))
			continue
		}
		if c.ok {
			w.do("start", "web")
			continue
		}
		for _, verb := range []string{"start", "restart"} {
			require.Contains(t, w.refused(refusal.NotAllowed, verb, "web").Hint, "guest_uids", "%+v", c)
		}
		w.refused(refusal.NotAllowed, "create", "new", "command", "sleep", "state", "running")
	}
}

func TestSIGKILLAfterTheGrace(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.StopGrace = 200 * time.Millisecond })
	w.do("create", "web", "command", "stubborn", "state", "running")
	w.waitUp("web")
	pid := w.process("web").run.PID
	r := must.Get(drivertest.Rehearse(w.ctx, &fakePermit{step: w.step("stop", "web")}, w.d.prepare))(t)
	require.Equal(t, "killed: it did not end within 200ms", r.Detail)
	require.False(t, exists(pid))

	w.d.cfg.StopGrace = time.Minute
	w.do("create", "tame", "command", "sleep", "state", "running")
	w.waitUp("tame")
	r = must.Get(drivertest.Rehearse(w.ctx, &fakePermit{step: w.step("stop", "tame")}, w.d.prepare))(t)
	require.Empty(t, r.Detail)
}

func TestStoppedProcessCanBeStopped(t *testing.T) {
	w := newWorld(t)
	w.do("create", "web", "command", "sleep", "state", "running")
	w.waitUp("web")
	require.NoError(t, w.process("web").Signal(unix.SIGSTOP))
	w.do("stop", "web")
	require.Equal(t, Stopped, w.observe("web").Running)
}

// TestACancelledStop: the guest may still run, and the error says that nothing was taken.
func TestACancelledStop(t *testing.T) {
	w := newWorld(t)
	w.do("create", "web", "command", "stubborn", "state", "running")
	w.waitUp("web")
	ctx, cancel := context.WithCancel(w.ctx)
	p := &fakePermit{step: w.step("destroy", "web"), before: cancel}
	err := w.d.did(ctx, p)
	require.ErrorIs(t, err, refusal.Unavailable)
	require.NotErrorIs(t, err, context.Canceled, "it would be a doubt about the destroy")
	require.True(t, driver.IsTransient(err))
	require.False(t, driver.IsUnknown(err))
	require.True(t, w.observe("web").Present)
}

// TestNothingIsLeftOfAGroup: children end with the first process of the guest, also children
// that left the session.
func TestNothingIsLeftOfAGroup(t *testing.T) {
	for _, how := range []string{"stop", "destroy", "the leader dies", "the leader dies, found again", "the leader dies while nobody looks"} {
		t.Run(how, func(t *testing.T) {
			w := newWorld(t)
			w.do("create", "web", "command", "family", "state", "running")
			w.waitUp("web")
			child, stray := w.pidIn("web", dataDir, "child"), w.pidIn("web", dataDir, "stray")
			waitFor(t, "the stray has its own session", func() bool {
				sid, err := unix.Getsid(stray)
				return err == nil && sid == stray
			})
			leader := w.process("web")
			switch how {
			case "stop", "destroy":
				w.do(how, "web")
			case "the leader dies":
				require.NoError(t, leader.Signal(unix.SIGKILL))
				<-w.exited
			case "the leader dies, found again":
				w.restart()
				require.NoError(t, w.process("web").Signal(unix.SIGKILL))
				<-w.exited
			default:
				held := must.Get(proc.Open(leader.run.PID, leader.run.Ticks))(t)
				require.NoError(t, w.d.Close())
				require.NoError(t, held.Signal(unix.SIGKILL))
				require.NoError(t, held.Wait(w.ctx))
				w.open()
				require.Equal(t, Stopped, w.observe("web").Running)
				if switches() { // else nothing proves that it left none
					require.NoFileExists(t, w.path("web", runFileName))
				}
			}
			for _, pid := range []int{leader.run.PID, child, stray} {
				waitFor(t, fmt.Sprintf("%d is gone", pid), func() bool { return !exists(pid) || zombie(pid) })
			}
			require.False(t, exists(leader.run.PID), "a zombie was left")
		})
	}
}

// zombie: an orphan stays a zombie until init collects it.
func zombie(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && strings.Contains(string(b), ") Z ")
}

func TestProcessesOutliveTheDaemon(t *testing.T) {
	w := newWorld(t)
	w.do("create", "web", "command", "sleep", "state", "running")
	w.do("create", "idle")
	w.waitUp("web")
	run := w.process("web").run
	w.restart()
	require.Equal(t, Running, w.observe("web").Running)
	require.Equal(t, Stopped, w.observe("idle").Running)
	require.Equal(t, run, w.process("web").run)
	w.restart()
	w.do("stop", "web")
	require.Equal(t, target("web"), <-w.exited)
	require.False(t, exists(run.PID))
	w.restart()
	require.Equal(t, Stopped, w.observe("web").Running)
}

// TestAReusedPIDIsNotSignalled: a run file names a process that is not the guest's.
func TestAReusedPIDIsNotSignalled(t *testing.T) {
	bystander := exec.Command("/bin/sleep", "1000")
	require.NoError(t, bystander.Start())
	defer func() { _ = bystander.Process.Kill(); _ = bystander.Wait() }()
	now := must.Get(proc.ReadStat(bystander.Process.Pid))(t)
	w := newWorld(t)
	for name, run := range map[string]runFile{
		"start-time": {PID: bystander.Process.Pid, Ticks: now.Start - 1, BootID: w.d.cfg.BootID},
		"boot":       {PID: bystander.Process.Pid, Ticks: now.Start, BootID: "another boot"},
		"gone":       {PID: 1 << 22, Ticks: now.Start, BootID: w.d.cfg.BootID},
	} {
		run.StartedAt, run.Command = newWorldClock(), "sleep"
		w.do("create", name, "command", "sleep")
		g := must.Get(w.d.openGuest(name))(t)
		require.NoError(t, run.write(g.dir))
		g.close()
	}
	w.restart()
	for _, name := range []string{"start-time", "boot", "gone"} {
		require.Equal(t, Stopped, w.observe(name).Running, name)
		w.do("stop", name)
		w.do("destroy", name)
	}
	require.True(t, exists(bystander.Process.Pid))
	require.False(t, zombie(bystander.Process.Pid))
}

func TestAnUnreadableRunFile(t *testing.T) {
	w := newWorld(t)
	w.do("create", "web", "command", "sleep", "state", "running")
	w.waitUp("web")
	pid := w.process("web").run.PID
	require.NoError(t, w.d.Close())
	w.write(`{"pid":1}`, "web", runFileName)
	w.open()
	require.Equal(t, Stopped, w.observe("web").Running)
	waitFor(t, "what nobody can name is ended", func() bool { return !exists(pid) || zombie(pid) })
	var status unix.WaitStatus
	_, err := unix.Wait4(pid, &status, unix.WNOHANG, nil) // it is a child of this test
	require.NoError(t, err)
}

// TestACrashBeforeTheOrders: a child without orders never becomes a guest.
func TestACrashBeforeTheOrders(t *testing.T) {
	w := newWorld(t)
	w.do("create", "web", "command", "sleep")
	g := must.Get(w.d.openGuest("web"))(t)
	defer g.close()
	files := must.Get(openLaunchFiles(g, account{}))(t)
	_, fd := must.Two(files.fork(g.incarnation(), proc.NewFD))(t)
	files.close() // as the kernel does if the daemon is killed
	require.NoError(t, fd.Wait(w.ctx))
	fd.Reap()
	fd.Close()
	require.NoFileExists(t, w.path("web", dataDir, "up"))
	require.Equal(t, Stopped, w.observe("web").Running)
}

// TestAChildWithoutAHandle: fork ends and reaps it, because no later code could.
func TestAChildWithoutAHandle(t *testing.T) {
	w := newWorld(t)
	w.do("create", "web", "command", "sleep")
	g := must.Get(w.d.openGuest("web"))(t)
	defer g.close()
	files := must.Get(openLaunchFiles(g, account{}))(t)
	defer files.close()
	no := errors.New("no")
	var child int
	_, _, err := files.fork(g.incarnation(), func(fd int) (*proc.FD, error) {
		info := must.Get(os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", fd)))(t)
		_, after, _ := strings.Cut(string(info), "\nPid:")
		line, _, _ := strings.Cut(after, "\n")
		child = must.Get(strconv.Atoi(strings.TrimSpace(line)))(t)
		require.True(t, exists(child))
		require.NoError(t, unix.Close(fd))
		return nil, no
	})
	require.ErrorIs(t, err, no)
	require.False(t, exists(child), "a zombie was left")
}

// descriptorsOf are the open files of another process, by number. One that is closed meanwhile is left out.
func descriptorsOf(t *testing.T, pid int) map[string]string {
	t.Helper()
	links := map[string]string{}
	for _, fd := range must.Get(os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid)))(t) {
		if link, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", pid, fd.Name())); err == nil {
			links[fd.Name()] = link
		}
	}
	return links
}

func TestTheChildGetsNothingOfTheDaemon(t *testing.T) {
	t.Setenv("SECRET_OF_THE_DAEMON", "x")
	leak, err := unix.Open("/etc/passwd", unix.O_RDONLY, 0) // not close-on-exec
	require.NoError(t, err)
	defer unix.Close(leak)
	w := newWorld(t, withCommand("look", Command{
		Argv: []string{"/usr/bin/env", "sh", "-c", "env > env; pwd > pwd; echo out; echo err >&2; cat > stdin; echo up > up; exec sleep 1000"},
		Env:  map[string]string{"PATH": "/usr/bin:/bin", "GREETING": "hello $(id) ; 'x'"}}))
	// The test reads the child's descriptors from outside, because the child has no /proc.
	w.do("create", "web", "command", "look", "state", "running")
	w.waitUp("web")
	pid := w.process("web").run.PID
	if uidOf(pid) == own() || os.Geteuid() == 0 { // other users may not look
		// The shell, and then the loader of sleep, open files of their own for a moment. What was inherited stays.
		want := map[string]string{"0": "/dev/null", "1": w.path("web", logFile), "2": w.path("web", logFile)}
		waitFor(t, "the child has its own three files, and no other", func() bool {
			return maps.Equal(want, descriptorsOf(t, pid))
		})
	}
	env := w.content("web", dataDir, "env")
	require.NotContains(t, env, "SECRET")
	require.Contains(t, env, "GREETING=hello $(id) ; 'x'\n")
	require.Contains(t, env, markOf(w.observe("web").Incarnation))
	require.Equal(t, w.path("web", dataDir)+"\n", w.content("web", dataDir, "pwd"))
	require.Empty(t, w.content("web", dataDir, "stdin"))
	require.Contains(t, w.content("web", logFile), "out\nerr\n")
	require.Equal(t, pid, must.Get(unix.Getsid(pid))(t))
	status := must.Get(os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)))(t)
	require.Contains(t, string(status), "NoNewPrivs:\t1")
	require.Contains(t, string(status), "CapEff:\t0000000000000000")
	require.Contains(t, string(status), "CapPrm:\t0000000000000000")
}

func TestLandlock(t *testing.T) {
	needLandlock(t)
	secret := t.TempDir() + "/secret"
	require.NoError(t, os.WriteFile(secret, []byte("x"), 0o644))
	w := newWorld(t, withCommand("try", sh(`
echo spoilt > ../guest.json; echo spoilt > ../../other/data/file; echo spoilt > ../run.json
cat `+secret+` > leaked; cat ../guest.json > leaked2; mv ../snapshots mine
mkdir -p a b; echo x > a/f; mv a/f b/f; ln b/f a/g; head -c 1 /dev/zero > zero; cat /etc/hostname > etc
kill -0 `+strconv.Itoa(os.Getpid())+` && echo yes > signalled
echo up > up; exec sleep 1000`)), func(c *Config) { c.without = layers{uid: true, seccomp: true} })
	w.do("create", "other")
	w.write("theirs", "other", dataDir, "file")
	w.do("create", "web", "command", "try")
	before := w.content("web", guestFile)
	w.do("start", "web")
	w.waitUp("web")
	require.Equal(t, before, w.content("web", guestFile))
	require.Equal(t, "theirs", w.content("other", dataDir, "file"))
	require.DirExists(t, w.path("web", snapshotsDir))
	require.Empty(t, w.content("web", dataDir, "leaked"))
	require.Empty(t, w.content("web", dataDir, "leaked2"))
	require.Equal(t, "x\n", w.content("web", dataDir, "b", "f"))
	require.Equal(t, "x\n", w.content("web", dataDir, "a", "g"))
	require.Equal(t, "\x00", w.content("web", dataDir, "zero"))
	if w.d.landlock >= 6 {
		require.NoFileExists(t, w.path("web", dataDir, "signalled"))
	}
	require.True(t, w.d.Status().Stands(LayerLandlock))
	w.do("stop", "web")
}

func TestAnotherUser(t *testing.T) {
	needRoot(t, t.Name())
	c := sh("id -u > uid; id -G > gids; echo x > ../guest.json; cat ../guest.json > leaked; echo up > up; exec sleep 1000")
	c.User = "nobody"
	w := newWorld(t, withCommand("web", c), func(c *Config) { c.SingleUser = false })
	nobody := must.Get(lookupAccount("nobody"))(t)
	require.True(t, nobody.Switch)
	w.do("create", "web", "command", "web", "state", "running")
	w.waitUp("web")
	require.Equal(t, int(nobody.UID), w.pidIn("web", dataDir, "uid"))
	require.Equal(t, int(nobody.GID), w.pidIn("web", dataDir, "gids"))
	require.Empty(t, w.content("web", dataDir, "leaked"))
	w.do("snapshot", "web", "snapshot", "s")
	w.do("wipe", "web")
	w.do("start", "web")
	w.waitUp("web")
	w.do("restore", "web", "snapshot", "s")
	w.do("start", "web")
	waitFor(t, "it writes in what was restored", func() bool {
		info, err := os.Stat(w.path("web", dataDir, "up"))
		return err == nil && info.ModTime().After(w.observeSnapshotTime("web", "s"))
	})
}

func (w *world) observeSnapshotTime(name, snapshot string) time.Time {
	return must.Get(os.Stat(w.path(name, snapshotsDir, snapshot, "up")))(w.t).ModTime()
}

func TestRlimitsHoldMemory(t *testing.T) {
	w := newWorld(t, withCommand("limit", sh("ulimit -v > limit; ulimit -n > files; echo up > up; exec sleep 1000")))
	w.do("create", "web", "command", "limit", "memory", int64(300), "cpus", int64(2), "state", "running")
	w.waitUp("web")
	require.Equal(t, 300*1024, w.pidIn("web", dataDir, "limit"))
	require.LessOrEqual(t, w.pidIn("web", dataDir, "files"), usualOpenFiles)
	require.Equal(t, byRlimits, w.d.Status().Memory)
	require.Equal(t, "memory 300 MiB of address space by rlimits, as it was at the start; cpus 2 not enforced (no cgroup)",
		w.processFact("web", "limits"))
}

func (w *world) processFact(name, fact string) string {
	for _, f := range w.observe(name).Facts {
		if f.Name == fact {
			return f.Text
		}
	}
	return ""
}

func TestTheExitOfAProcessIsNoticed(t *testing.T) {
	w := newWorld(t)
	w.do("create", "web", "command", "once", "state", "running")
	require.Equal(t, target("web"), <-w.exited)
	require.Equal(t, Stopped, w.observe("web").Running)
	require.Equal(t, "done\n", w.content("web", dataDir, "done"))
	w.do("start", "web")
	require.Equal(t, target("web"), <-w.exited)
}

func TestALongLogIsSetAsideAtAStart(t *testing.T) {
	w := newWorld(t)
	w.do("create", "web", "command", "once")
	for size, aside := range map[int64]bool{maxLog - 100: false, maxLog + 1: true} {
		w.write("", "web", logFile)
		_ = os.Remove(w.path("web", logFile+oldLogExt))
		require.NoError(t, os.Truncate(w.path("web", logFile), size))
		w.do("start", "web")
		<-w.exited
		_, err := os.Stat(w.path("web", logFile+oldLogExt))
		require.Equal(t, aside, err == nil, "%d bytes", size)
	}
	require.Len(t, w.observe("web").Storage, 1, "a log is no storage")
}

func TestAFailedStartLeavesNothing(t *testing.T) {
	w := newWorld(t)
	w.do("create", "web", "command", "none")
	require.ErrorContains(t, w.try("start", "web"), "no such file or directory")
	require.Equal(t, Stopped, w.observe("web").Running)
	require.NoFileExists(t, w.path("web", runFileName))
}
