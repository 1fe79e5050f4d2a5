package local

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"gated/internal/base/proc"
	"gated/internal/base/refusal"
	"gated/internal/driver"
	"gated/internal/test/must"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// crowdArg is the first argument that makes this test program a crowd: a process with many idle
// children. Neither their arguments nor their environment can be read, as if they were just
// executing a program.
const crowdArg = "__crowd"

// startCrowd starts n such processes as a uid, and ends them with the test. Hidden ones may not
// be dumped, so /proc says that they belong to root.
func startCrowd(t *testing.T, uid uint32, n int, hidden bool) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", crowdArg, strconv.Itoa(n), strconv.FormatBool(hidden))
	if int(uid) != os.Geteuid() {
		needRoot(t, t.Name())
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid, NoSetGroups: true}}
	}
	in := must.Get(cmd.StdinPipe())(t)
	out := must.Get(cmd.StdoutPipe())(t)
	cmd.Stderr = os.Stderr
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = in.Close(); _ = cmd.Wait() })
	line := must.Get(bufio.NewReader(out).ReadString('\n'))(t)
	last := must.Get(strconv.Atoi(strings.TrimSpace(line)))(t)
	waitFor(t, "the crowd forgot its environment", func() bool {
		env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", last))
		return err == nil && len(env) == 0
	})
}

// maybeCrowd turns this process into a crowd if it was started as one. Then it does not return.
func maybeCrowd() {
	if len(os.Args) != 4 || os.Args[1] != crowdArg {
		return
	}
	n, err := strconv.Atoi(os.Args[2])
	if err == nil {
		err = crowd(n, os.Args[3] == "true")
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func crowd(n int, hidden bool) error {
	runtime.LockOSThread() // the death of this thread ends its children
	if unix.Gettid() == os.Getpid() {
		// The race detector uses the stack of the thread. The first thread's stack also holds
		// the arguments.
		failed := make(chan error)
		go func() { failed <- crowd(n, hidden) }()
		return <-failed
	}
	from, to, err := wordsAt()
	if err != nil {
		return err
	}
	last := 0
	for range n {
		if last, err = forkIdle(from, to, hidden); err != nil {
			return err
		}
	}
	fmt.Println(last)
	_, _ = os.Stdin.Read(make([]byte, 1)) // until the test ends
	os.Exit(0)
	return nil
}

// wordsAt returns the pages that hold this process' arguments and environment.
func wordsAt() (from, to uintptr, err error) {
	b, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return 0, 0, err
	}
	fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	at := func(field int) uintptr { // counted from 1, as proc_pid_stat(5) does
		n, e := strconv.ParseUint(fields[field-3], 10, 64)
		if e != nil {
			err = e
		}
		return uintptr(n)
	}
	page := uintptr(os.Getpagesize())
	return at(48) / page * page, (at(51) + page - 1) / page * page, err
}

// forkIdle makes a child that unmaps those pages and waits for its end. The child is a copy of
// this process with one thread. It must not use the Go runtime, only system calls.
// anything of the Go runtime: system calls alone.
//
//go:norace
func forkIdle(from, to uintptr, hidden bool) (int, error) {
	pid, _, errno := unix.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	if pid != 0 {
		return int(pid), nil
	}
	_, _, _ = unix.RawSyscall(unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0)
	if hidden {
		_, _, _ = unix.RawSyscall(unix.SYS_PRCTL, unix.PR_SET_DUMPABLE, 0, 0)
	}
	_, _, _ = unix.RawSyscall(unix.SYS_MUNMAP, from, to-from, 0)
	for {
		_, _, _ = unix.RawSyscall6(unix.SYS_PPOLL, 0, 0, 0, 0, 0, 0)
	}
}

// TestACrowdHoldsUpNothing: once, 300 idle processes of any uid made a destroy end as
// interrupted after 21 s. The driver read the environment of each 100 times.
func TestACrowdHoldsUpNothing(t *testing.T) {
	own := uint32(os.Geteuid())
	for name, c := range map[string]struct {
		uid    uint32
		hidden bool
	}{"of strangers": {overflowUID, false}, "of strangers that may not be dumped": {overflowUID, true}, "of the daemon's uid": {own, false}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.do("create", "web", "command", "family", "state", "running")
			w.waitUp("web")
			startCrowd(t, c.uid, 300, c.hidden)
			var read atomic.Int64
			w.d.seek.environ = func(pid int) ([]byte, error) {
				if uid, err := proc.UID(pid); err == nil && uid != own {
					read.Add(1)
				}
				return environ(pid)
			}
			w.do("destroy", "web")
			require.False(t, w.observe("web").Present)
			require.Zero(t, read.Load(), "a stranger's environment was read")
			require.NotContains(t, w.log.String(), "left behind")
		})
	}
}

// held replaces environ. For some processes it does not return before the test has ended.
func held(t *testing.T, d *Driver, which func(pid int) bool) *atomic.Int64 {
	release, calls := make(chan struct{}), &atomic.Int64{}
	t.Cleanup(func() { close(release) })
	d.seek.wait = 100 * time.Millisecond
	d.seek.environ = func(pid int) ([]byte, error) {
		if which(pid) {
			calls.Add(1)
			<-release
		}
		return environ(pid)
	}
	return calls
}

// TestAProcessThatHoldsUpItsReader: it delays one look once, and no destroy.
func TestAProcessThatHoldsUpItsReader(t *testing.T) {
	w := newWorld(t)
	stuck := exec.Command("/bin/sleep", "1000")
	require.NoError(t, stuck.Start())
	defer func() { _ = stuck.Process.Kill(); _ = stuck.Wait() }()
	calls := held(t, w.d, func(pid int) bool { return pid == stuck.Process.Pid })
	w.d.seek.wait = 2 * time.Second // on a busy machine the other processes take longer
	for _, name := range []string{"web", "db"} {
		w.do("create", name, "command", "family", "state", "running")
		w.waitUp(name)
		stray := w.pidIn(name, dataDir, "stray")
		w.do("destroy", name)
		require.False(t, w.observe(name).Present)
		waitFor(t, "the stray is gone all the same", func() bool { return !exists(stray) || zombie(stray) })
		require.Contains(t, w.log.String(), fmt.Sprintf("1 processes do not let their environment be read, process %d", stuck.Process.Pid))
	}
	require.EqualValues(t, 1, calls.Load(), "it held another thread")
}

// TestReadsOfEnvironmentsAreBounded: at and above the largest number of reads.
func TestReadsOfEnvironmentsAreBounded(t *testing.T) {
	for _, n := range []int{maxReads - 1, maxReads, maxReads + 1} {
		w := newWorld(t)
		calls := held(t, w.d, func(int) bool { return true })
		pids := make([]int, n)
		for i := range pids {
			pids[i] = 1<<23 + i // above every existing pid
		}
		ctx, cancel := context.WithCancel(t.Context())
		var envs map[int][]byte
		ended := make(chan error, 1)
		go func() {
			var err error
			envs, err = w.d.seek.read(ctx, pids)
			ended <- err
		}()
		waitFor(t, "all that may have begun", func() bool { return calls.Load() == int64(min(n, maxReads)) })
		cancel()
		require.ErrorContains(t, <-ended, fmt.Sprintf("%d processes do not let", n))
		require.Empty(t, envs)
		require.EqualValues(t, min(n, maxReads), calls.Load())
	}
}

// TestASignedDestroyWaitsForALostGuest: while processes of an earlier run have not ended, the
// permit of a destroy is not used. So no approval is spent.
func TestASignedDestroyWaitsForALostGuest(t *testing.T) {
	for _, verb := range []string{"destroy", "wipe"} {
		w := newWorld(t)
		w.do("create", "web", "command", "sleep")
		inc := w.observe("web").Incarnation
		w.d.lost.add(lostGuest{name: "web", inc: inc, verdict: verdict{err: context.DeadlineExceeded}})
		w.d.cfg.strayWait = time.Nanosecond
		p := &fakePermit{step: w.step(verb, "web"), before: func() { t.Error("the permit was used") }}
		err := w.d.did(w.ctx, p)
		require.ErrorIs(t, err, refusal.Conflict)
		require.True(t, driver.IsTransient(err), "it is tried again")
		w.d.cfg.strayWait = killWait
		w.do(verb, "web")
	}
}
