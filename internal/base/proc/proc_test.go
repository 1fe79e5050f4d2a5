package proc

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"gated/internal/test/must"
)

// TestReadAndOpen: a program's name may look like the rest of the line.
func TestReadAndOpen(t *testing.T) {
	name := t.TempDir() + "/a) R 1 (b"
	require.NoError(t, os.Symlink("/bin/sleep", name))
	cmd := exec.Command(name, "1000")
	require.NoError(t, cmd.Start())
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	pid := cmd.Process.Pid
	p := must.Get(Read(pid))(t)
	own := must.Get(Read(os.Getpid()))(t)
	require.GreaterOrEqual(t, p.Start, own.Start)
	require.Less(t, p.Start, own.Start+100*60*60)
	require.Equal(t, Process{PID: pid, Parent: os.Getpid(), Session: own.Session, Terminal: own.Terminal, Start: p.Start,
		UID: uint32(os.Geteuid()), OneUID: os.Getuid() == os.Geteuid()}, p)
	stat := must.Get(ReadStat(pid))(t)
	stat.UID, stat.OneUID = p.UID, p.OneUID
	require.Equal(t, p, stat)

	require.Contains(t, string(must.Get(os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)))(t)), "(a) R 1 (b)")
	fd := must.Get(Open(pid, p.Start))(t)
	require.NotNil(t, fd)
	fd.Close()
	fd = must.Get(Open(pid, p.Start+1))(t)
	require.Nil(t, fd, "another process under the same pid")
}

func TestOneThatIsGone(t *testing.T) {
	cmd := exec.Command("/bin/sleep", "1000")
	require.NoError(t, cmd.Start())
	pid := cmd.Process.Pid
	p := must.Get(Read(pid))(t)
	fd := must.Get(Open(pid, p.Start))(t)
	defer fd.Close()
	require.False(t, fd.Ended())
	require.NoError(t, fd.Signal(unix.SIGKILL))
	require.NoError(t, fd.Wait(t.Context()))
	require.True(t, fd.Ended(), "a zombie has ended")
	require.Equal(t, p.Start, must.Get(Read(pid))(t).Start)
	fd.Reap()
	require.True(t, fd.Ended())
	require.NoError(t, fd.Signal(unix.SIGKILL), "one that has ended is no error")
	must.Fail(Read(pid))(t, ErrGone)
	must.Fail(ReadStat(pid))(t, ErrGone)
	for _, open := range []func() (*FD, error){
		func() (*FD, error) { return OpenPID(pid) },
		func() (*FD, error) { return Open(pid, p.Start) },
	} {
		got := must.Get(open())(t)
		require.Nil(t, got)
	}
	_ = cmd.Process.Release()
}

func TestAWaitThatIsCutShort(t *testing.T) {
	own := must.Get(OpenPID(os.Getpid()))(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, own.Wait(ctx), context.Canceled)
	own.Close()
	require.Error(t, own.Wait(t.Context()))
	require.False(t, own.Ended(), "what is closed says nothing")
}

func TestLinesThatAreNone(t *testing.T) {
	line := "7 (a b) (c)\n) S 3 7 5 34816 7 0 0 0 0 0 0 0 0 0 20 0 1 0 18446744073709551615 0"
	p := must.Get(parseStat([]byte(line)))(t)
	require.Equal(t, Process{PID: 7, Parent: 3, Session: 5, Terminal: 34816, Start: 1<<64 - 1}, p)
	for _, bad := range []string{"", "7", ") 7 (", "x" + line, strings.Replace(line, "S 3", "S x", 1),
		strings.TrimSuffix(line, " 18446744073709551615 0"), strings.Replace(line, "18446744073709551615", "-1", 1)} {
		must.Err(parseStat([]byte(bad)))(t, bad)
	}

	status := "Name:\tUid: 9\nUid:\t5\t5\t5\t5\nNSpid:\t7\n"
	require.NoError(t, p.parseStatus([]byte(status)))
	require.True(t, p.UID == 5 && p.OneUID && !p.Foreign)
	for _, uids := range []string{"6\t5\t5\t5", "5\t5\t6\t5", "5\t5\t5\t6"} {
		require.NoError(t, p.parseStatus([]byte(strings.Replace(status, "5\t5\t5\t5", uids, 1))))
		require.True(t, p.UID == 5 && !p.OneUID, uids)
	}
	require.NoError(t, p.parseStatus([]byte(strings.Replace(status, "\t7\n", "\t7\t1\n", 1))))
	require.True(t, p.Foreign)
	for _, bad := range []string{"", "Uid:\t5\t5\t5\t5\n", "NSpid:\t7\n", "Uid:\t5\nNSpid:\t7\n", "Uid:\t-1\t-1\t-1\t-1\nNSpid:\t7\n"} {
		require.Error(t, p.parseStatus([]byte(bad)), bad)
	}
}

func TestBootID(t *testing.T) {
	require.Len(t, must.Get(BootID())(t), len("00000000-0000-0000-0000-000000000000"))
}

func BenchmarkRead(b *testing.B) {
	for b.Loop() {
		if _, err := Read(os.Getpid()); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkReadStat(b *testing.B) {
	for b.Loop() {
		if _, err := ReadStat(os.Getpid()); err != nil {
			b.Fatal(err)
		}
	}
}
