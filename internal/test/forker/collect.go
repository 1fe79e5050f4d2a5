package forker

import (
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// collectedVar is set in the environment of tests below a collector.
const collectedVar = "GATED_TEST_COLLECTED"

// Run runs a package's tests in a child, and collects every process that lost its parent. TestMain calls it if a forker of
// the package leaves its processes to init. Init may take seconds to collect them. Then a forker waits most of the time, and a
// single look finds it.
func Run(tests func() int) int {
	if os.Getenv(collectedVar) != "" {
		return tests()
	}
	status, err := collect()
	if err != nil {
		fmt.Fprintln(os.Stderr, "collect the processes of tests:", err)
		return 1
	}
	if status.Signaled() {
		fmt.Fprintln(os.Stderr, "the tests were ended by:", status.Signal())
		return 1
	}
	return status.ExitStatus()
}

func collect() (syscall.WaitStatus, error) {
	var status syscall.WaitStatus
	runtime.LockOSThread() // the end of this thread ends the child
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return status, fmt.Errorf("child_subreaper: %w", err)
	}
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGINT) // go test asks for the stacks with SIGQUIT
	child, err := syscall.ForkExec("/proc/self/exe", os.Args, &syscall.ProcAttr{Env: append(os.Environ(), collectedVar+"=1"),
		Files: []uintptr{0, 1, 2}, Sys: &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}})
	if err != nil {
		return status, err
	}
	go func() {
		for sig := range asked {
			_ = syscall.Kill(child, sig.(syscall.Signal))
		}
	}()
	for {
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		if pid == child || err != nil && err != syscall.EINTR {
			return status, err
		}
	}
}
