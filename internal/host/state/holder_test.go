package state

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

// zombie is a process that has ended and was not waited for.
func zombie(t *testing.T) int {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/bin/true")
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Wait() })
	var info unix.Siginfo
	require.NoError(t, unix.Waitid(unix.P_PID, cmd.Process.Pid, &info, unix.WEXITED|unix.WNOWAIT, nil))
	return cmd.Process.Pid
}

// heldBy locks a made state directory and says that a process has done so.
func heldBy(t *testing.T, dir, pid string) *os.File {
	t.Helper()
	f := must.Get(os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR, 0))(t)
	t.Cleanup(func() { _ = f.Close() })
	require.NoError(t, unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB))
	require.NoError(t, f.Truncate(0))
	must.Get(f.WriteAt([]byte(pid), 0))(t)
	return f
}

func TestTheLockOfAProcessThatEndsIsWaitedFor(t *testing.T) {
	o := on(t, machineA)
	dir, id := made(t, o)
	dead := zombie(t)
	f := heldBy(t, dir, strconv.Itoa(dead)+"\n")
	var told []int
	o.Patience = time.Minute
	o.Waiting = func(pid int) {
		told = append(told, pid)
		require.NoError(t, f.Close()) // its last file
	}
	require.Equal(t, id, must.Get(start(t, dir, o))(t))
	require.Equal(t, []int{dead}, told)
}

func TestALockThatIsNotGivenBackIsRefused(t *testing.T) {
	o := on(t, machineA)
	dir, _ := made(t, o)
	f := heldBy(t, dir, strconv.Itoa(zombie(t)))
	o.Patience = time.Millisecond
	_, err := Open(dir, o)
	requireRefusal(t, err, refusal.Conflict, "was not given back within 1ms")
	require.NoError(t, f.Close())
	must.Get(start(t, dir, on(t, machineA)))(t, "whoever gave up does not keep it")
}

// A child that was forked has the lock's file until it runs its program. It keeps no lock that was given back.
func TestAChildKeepsNoLock(t *testing.T) {
	o := on(t, machineA)
	dir, _ := made(t, o)
	d := must.Get(Open(dir, o))(t)
	child := must.Get(unix.Dup(int(d.lock.Fd())))(t)
	defer unix.Close(child)
	require.NoError(t, d.Close())
	must.Get(start(t, dir, o))(t)
}

func TestAHolderThatLivesIsNotWaitedFor(t *testing.T) {
	for name, pid := range map[string]string{
		"lives": strconv.Itoa(os.Getpid()), "no pid": "", "not a pid": "-1", "too large": "99999999999999999999", "zero": "0",
	} {
		t.Run(name, func(t *testing.T) {
			o := on(t, machineA)
			dir, _ := made(t, o)
			heldBy(t, dir, pid)
			o.Waiting = func(int) { t.Error("it waits") }
			_, err := Open(dir, o)
			requireRefusal(t, err, refusal.Conflict, "uses the state directory")
		})
	}
}

func TestWhatTheKernelSaysOfAProcess(t *testing.T) {
	require.True(t, ends(zombie(t)))
	require.False(t, ends(os.Getpid()))
	require.True(t, ends(1<<30), "no pid is so large")

	require.True(t, leaving([]byte("7 (a) Z) Z 1 7 7 0 -1 4228364 0")))
	require.True(t, leaving([]byte("7 (gated) R 1 7 7 0 -1 4194308 0")))
	require.False(t, leaving([]byte("7 (Z) S 1 7 7 0 -1 4194304 0")))
	require.False(t, leaving([]byte("")))
	require.True(t, killed([]byte("State:\tD\nSigPnd:\t0000000000000000\nShdPnd:\t0000000000000100\n")))
	require.True(t, killed([]byte("SigPnd:\t0000000000000101\n")))
	require.False(t, killed([]byte("SigPnd:\t0000000000000080\nSigBlk:\t0000000000000100\n")))
}
