package command_test

import (
	"context"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/driver/command"
	"gated/internal/driver/command/catalogue"
	"gated/internal/test/must"
)

// daemonEnv is set for a process of this program that plays a daemon. Its value is the program
// that it runs.
const daemonEnv = "GATED_TEST_COMMAND_DAEMON"

// daemon runs a program until it is killed.
func daemon(program string) {
	own := os.Getuid() != 0
	e := catalogue.Entry{Argv: []string{"/bin/true"}, Probe: []string{program}, Env: map[string]string{"PATH": "/usr/bin:/bin"},
		Timeout: time.Hour, ProbeTimeout: time.Hour, Output: catalogue.MaxOutput}
	if !own {
		e.User = worker
	}
	d := command.New(command.Config{Entries: map[string]catalogue.Entry{"does": e}, SingleUser: own})
	_, err := d.Observe(context.Background(), asking("does"))
	panic(err)
}

// TestTheDaemonDies: the command and all its descendants die with it. So after a restart, a
// command never runs beside its earlier run.
func TestTheDaemonDies(t *testing.T) {
	b := newBench(t)
	script := b.script("does", "#!/bin/sh\ncd "+b.path("work")+`
trap '' TERM HUP
echo $$ >> pids
setsid sh -c 'trap "" TERM; echo $$ >> pids; while :; do sleep 1000; done' &
sleep 1000 & echo $! >> pids
while :; do sleep 1000; done
`)
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), daemonEnv+"="+script)
	require.NoError(t, cmd.Start())
	var pids []string
	require.Eventually(t, func() bool {
		text, _ := os.ReadFile(b.path("work", "pids"))
		pids = strings.Fields(string(text))
		return len(pids) == 3
	}, time.Minute, time.Millisecond)
	require.NoError(t, cmd.Process.Kill())
	require.Error(t, cmd.Wait())
	for _, p := range pids {
		pid := must.Get(strconv.Atoi(p))(t)
		require.Eventually(t, func() bool { return syscall.Kill(pid, 0) == syscall.ESRCH }, time.Minute, time.Millisecond, "process %d lives on", pid)
	}
}
