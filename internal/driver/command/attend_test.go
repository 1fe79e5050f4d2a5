package command

import (
	"os"
	"os/signal"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"gated/internal/test/must"
)

// TestChildrenWithoutEndDoNotHoldAnOrderUp: a command leaves children, and each ends. The warden collects one at a time, and
// reads an order in between.
func TestChildrenWithoutEndDoNotHoldAnOrderUp(t *testing.T) {
	start := func(program string) int {
		return must.Get(syscall.ForkExec(program, []string{program, "1000"}, &syscall.ProcAttr{Sys: &syscall.SysProcAttr{Setsid: true}}))(t)
	}
	const left = 20
	for range left {
		pid := start("/bin/true")
		require.NoError(t, unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil))
	}
	for range left {
		_, pid := collect()
		require.Positive(t, pid)
	}
	child := start("/bin/sleep")
	_, none := collect()
	require.Zero(t, none, "each call collected one")

	ends, said := make(chan os.Signal, 1), make(chan byte, 1)
	signal.Notify(ends, unix.SIGCHLD)
	defer signal.Stop(ends)
	said <- stopOrder
	status := orders{Grace: 60_000}.attend(child, ends, said)
	require.Equal(t, unix.SIGTERM, status.Signal())
}
