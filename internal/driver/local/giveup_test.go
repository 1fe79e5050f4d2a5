package local

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"gated/internal/base/proc"
	"gated/internal/test/forker"
	"gated/internal/test/must"
)

// launched is a guest's child that is not watched yet, because its start is under way.
func (w *world) launched(ctx context.Context, name, command string) (*guest, *process, *launchFiles, error) {
	w.t.Helper()
	w.do("create", name, "command", command)
	g := must.Get(w.d.openGuest(name))(w.t)
	w.t.Cleanup(g.close)
	as := must.Get(w.d.runsAs(w.ctx, g))(w.t)
	files := must.Get(openLaunchFiles(g, as))(w.t)
	w.t.Cleanup(files.close)
	group := must.Get(w.d.cgroups.group(g.spec))(w.t)
	pid, fd := must.Two(files.fork(g.incarnation(), proc.NewFD))(w.t)
	p := &process{FD: fd, target: target(name), inc: g.incarnation(), uid: w.d.uids.of(g.UUID), group: group}
	cmd := w.cfg.Commands[command]
	err := w.d.release(ctx, g, p, pid, orders{Argv: cmd.Argv, Env: cmd.environ(p.inc), Account: as, Landlock: w.d.landlock, Seccomp: w.d.seccomp}, files)
	return g, p, files, err
}

// TestAStartThatIsGivenUpLeavesNoProcess: the time of a start is over just when the child has executed its command. What the
// program made until then ends, too, or the guest is not called stopped.
func TestAStartThatIsGivenUpLeavesNoProcess(t *testing.T) {
	kinds := map[string]func(*Config){"own user": func(c *Config) { c.without = layers{uid: true} }}
	if switches() {
		kinds["uid"] = func(*Config) {}
		group := realCgroup(t)
		kinds["cgroup"] = func(c *Config) { c.without, c.CgroupRoot = layers{uid: true}, group }
	}
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, forkers(t), kind)
			if os.Geteuid() != 0 {
				w.d.cfg.GuestUIDs = UIDRange{}
			}
			g, p, files, err := w.launched(w.ctx, "web", "stays")
			require.NoError(t, err)
			dir := w.forks("web")
			err = w.d.giveUp(w.ctx, g, p, files)
			require.NoError(t, err)
			if _, lost := w.d.lost.get(g.incarnation()); lost {
				require.Equal(t, "own user", name, "only a chain of the daemon's own user may never be caught")
				require.FileExists(t, w.path("web", runFileName))
				return
			}
			// The kernel hangs a tie up some steps before a process that ends gives its files back.
			waitFor(t, "its end", func() bool { return !must.Get(forker.Alive(dir))(t) })
			require.NoFileExists(t, w.path("web", runFileName))
		})
	}
}

// TestAStartThatIsGivenUpBeforeIsForgotten: the child says when it is about to execute the command. If it ended before, no
// process can be left.
func TestAStartThatIsGivenUpBeforeIsForgotten(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.without = layers{uid: true, landlock: true} })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	g, p, files, err := w.launched(ctx, "web", "none")
	require.Error(t, err)
	require.NoError(t, w.d.giveUp(w.ctx, g, p, files))
	_, lost := w.d.lost.get(g.incarnation())
	require.False(t, lost)
	require.NoFileExists(t, w.path("web", runFileName))
}

// TestAChildThatDoesNotEndIsLeft: the wait for a start that is given up has an end. What does not end is said, is remembered as
// a rest of a run, and ends with the next stop.
func TestAChildThatDoesNotEndIsLeft(t *testing.T) {
	w := newWorld(t)
	g, p, files, err := w.launched(w.ctx, "web", "sleep")
	require.NoError(t, err)
	w.waitUp("web")
	held := must.Get(proc.Open(p.run.PID, p.run.Ticks))(t)
	defer held.Close()
	p.Close() // no signal reaches it, and no wait sees its end
	err = w.d.giveUp(w.ctx, g, p, files)
	require.ErrorContains(t, err, fmt.Sprintf("process %d, which was to become the command, does not end", p.run.PID))
	require.False(t, held.Ended())
	require.FileExists(t, w.path("web", runFileName))
	o := w.observe("web")
	require.Equal(t, Running, o.Running)
	require.Contains(t, factOf(o, "process"), "do not end")
	require.NoError(t, w.try("stop", "web"))
	require.NoError(t, held.Wait(w.ctx))
	held.Reap()
	require.Equal(t, Stopped, w.observe("web").Running)
}

// TestAChildsWordsAreAwaitedForATime: another process has the child's end of the socket, so that it does not close.
func TestAChildsWordsAreAwaitedForATime(t *testing.T) {
	w := newWorld(t)
	w.do("create", "web", "command", "sleep")
	g := must.Get(w.d.openGuest("web"))(t)
	defer g.close()
	files := must.Get(openLaunchFiles(g, account{}))(t)
	defer files.close()
	other := must.Get(unix.Dup(int(files.childReady.Fd())))(t)
	defer unix.Close(other)
	pid, fd := must.Two(files.fork(g.incarnation(), proc.NewFD))(t)
	p := &process{FD: fd, target: target("web"), inc: g.incarnation(), uid: w.d.uids.of(g.UUID), run: runFile{PID: pid}}
	require.NoError(t, p.Signal(unix.SIGKILL))
	require.NoError(t, p.Wait(w.ctx))
	ctx, cancel := context.WithTimeout(w.ctx, time.Second)
	defer cancel()
	require.Error(t, w.d.giveUp(ctx, g, p, files))
	_, lost := w.d.lost.get(g.incarnation())
	require.True(t, lost, "nothing says whether its command began")
}
