package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"gated/client/api"
)

// socketUnit stands in for gated.socket and gated.service: it listens at GATED_SOCKET, starts the daemon of STATE with each call that
// finds none, and writes its pid to the file pid. It stays until the story ends.
func socketUnit() int {
	runtime.LockOSThread() // Pdeathsig is of the thread
	err := activate(os.Getenv("GATED_SOCKET"))
	fmt.Fprintln(os.Stderr, err)
	return api.ExitInternal
}

func activate(path string) error {
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return err
	}
	f, err := l.File()
	if err = errors.Join(err, os.Chmod(path, 0o600)); err != nil {
		return err
	}
	fd := int(f.Fd())
	for {
		for err = unix.EINTR; errors.Is(err, unix.EINTR); {
			_, err = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, -1)
		}
		if err != nil {
			return err
		}
		daemon := exec.Command("underunit", "serve", "--state", os.Getenv("STATE"), "--socket", path)
		daemon.ExtraFiles, daemon.Stderr = []*os.File{f}, os.Stderr
		daemon.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
		if err := daemon.Start(); err != nil {
			return err
		}
		if err := os.WriteFile("pid", fmt.Appendln(nil, daemon.Process.Pid), 0o600); err != nil {
			return err
		}
		_ = daemon.Wait() // how it ends is the story's doing
	}
}
