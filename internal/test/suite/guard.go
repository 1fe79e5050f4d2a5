package main

import (
	"bytes"
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

// startGuard starts a process that leads the group of go test and ends that group if this process ends before it. Nobody can
// catch SIGKILL, and go test would run on.
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
