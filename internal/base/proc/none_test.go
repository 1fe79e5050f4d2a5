package proc

import (
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"gated/internal/test/must"
)

// TestNoneOf: a process counts until its parent has collected it.
func TestNoneOf(t *testing.T) {
	must.Err(NoneOf(0))(t)
	if os.Geteuid() != 0 {
		require.False(t, must.Get(NoneOf(uint32(os.Getuid())))(t))
		t.Skipf("%s needs root for more", t.Name())
	}
	for _, uid := range []uint32{1<<30 - 1, 1<<32 - 5} { // above and below what fits an int32
		require.True(t, must.Get(NoneOf(uid))(t))
		cmd := exec.Command("/bin/sleep", "1000")
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid, NoSetGroups: true}}
		require.NoError(t, cmd.Start())
		require.False(t, must.Get(NoneOf(uid))(t))
		p := must.Get(OpenPID(cmd.Process.Pid))(t)
		require.NoError(t, p.Signal(unix.SIGKILL))
		require.NoError(t, p.Wait(t.Context()))
		require.False(t, must.Get(NoneOf(uid))(t), "a zombie counts")
		p.Reap()
		p.Close()
		require.True(t, must.Get(NoneOf(uid))(t))
		_ = cmd.Process.Release()
	}
}
