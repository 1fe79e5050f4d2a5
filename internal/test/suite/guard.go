package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// asGuard is the only argument of a suite that is another one's guard.
const asGuard = "-guard"

// script runs a command that is no go test, whose children end with it. It says whether the command passed.
func script(ctx context.Context, words []string) (bool, error) {
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	err := guarded(ctx, cmd)
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return false, errEnded
	case errors.As(err, &exit) && exit.ExitCode() > 0:
		return false, nil // it said why
	}
	return err == nil, err
}

// guarded runs a command in a process group of its own. With ctx, or with this process, all of the group ends. The command's end is
// that of what it left.
func guarded(ctx context.Context, cmd *exec.Cmd) error {
	group, release, err := startGuard()
	if err != nil {
		return err
	}
	defer release()
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid, cmd.SysProcAttr.Pgid = true, group
	cmd.Cancel = func() error { return syscall.Kill(-group, syscall.SIGINT) } // the children too, as a terminal does
	cmd.WaitDelay = leaving
	err = cmd.Run()
	_ = syscall.Kill(-group, syscall.SIGKILL) // what took no notice, and the guard
	return err
}

// startGuard starts a process that leads the group of a command and ends that group if this process ends before it. Nobody can
// catch SIGKILL, and the command would run on.
func startGuard() (pid int, release func(), err error) {
	self, err := os.Executable()
	if err != nil {
		return 0, nil, err
	}
	cmd := exec.Command(self, asGuard)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if _, err := cmd.StdinPipe(); err != nil {
		return 0, nil, err
	}
	if err := cmd.Start(); err != nil {
		return 0, nil, err
	}
	return cmd.Process.Pid, func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}, nil
}

// guard is the whole of that process. Its standard input ends with the suite.
func guard() {
	signal.Ignore(os.Interrupt, syscall.SIGTERM) // they are for the tests
	_, _ = io.Copy(io.Discard, os.Stdin)
	_ = syscall.Kill(0, syscall.SIGINT)
	const times = 300
	tick := time.NewTicker(leaving / times)
	for n := 0; n < times && !last(); n++ {
		<-tick.C
	}
	_ = syscall.Kill(0, syscall.SIGKILL)
}

// last says whether this process is the last of its group that runs. Where there is no /proc it cannot know, and says no.
func last() bool {
	left := 0
	processes, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, at := range processes {
		text, _ := os.ReadFile(at)
		var state string
		var parent, group int
		after := text[bytes.LastIndexByte(text, ')')+1:] // of a name that may have any character (proc(5))
		if n, _ := fmt.Sscan(string(after), &state, &parent, &group); n == 3 && group == syscall.Getpgrp() && !strings.Contains("ZX", state) {
			left++
		}
	}
	return left == 1
}
