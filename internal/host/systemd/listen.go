// Package systemd speaks with the service manager that started this process: it takes the sockets that the manager
// passes (sd_listen_fds(3)), and tells the manager how the daemon stands (sd_notify(3)). Without a service manager,
// every function does nothing.
package systemd

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

const (
	// firstFD is the number of the first descriptor (SD_LISTEN_FDS_START).
	firstFD = 3
	// maxFDs is the most descriptors that are taken. A unit of gated passes one.
	maxFDs = 64
)

// Sockets returns the descriptors that the service manager passed to this process, named as their socket unit names
// them; none if it passed none. What the process starts from now on inherits neither a descriptor nor a variable.
// Malformed: LISTEN_FDS is not a number of descriptors, or one of them is not open.
//
// Variables that are for another process (LISTEN_PID) pass nothing to this one, as in sd_listen_fds(3).
func Sockets() ([]*os.File, error) {
	pid, fds, names := os.Getenv("LISTEN_PID"), os.Getenv("LISTEN_FDS"), os.Getenv("LISTEN_FDNAMES")
	for _, name := range []string{"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"} {
		_ = os.Unsetenv(name) // it fails for a bad name alone
	}
	if pid != strconv.Itoa(os.Getpid()) {
		return nil, nil
	}
	n, err := parseCount(fds)
	if err != nil {
		return nil, err
	}
	var out []*os.File
	called := strings.Split(names, ":")
	for fd := firstFD; fd < firstFD+n; fd++ {
		name := "descriptor " + strconv.Itoa(fd)
		if i := fd - firstFD; i < len(called) && called[i] != "" {
			name = called[i]
		}
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFD, unix.FD_CLOEXEC); err != nil {
			return nil, refusal.New(refusal.Malformed, "LISTEN_FDS is %d, but descriptor %d cannot be used: %v", n, fd, err).
				WithHint("unset LISTEN_PID and LISTEN_FDS where no service manager sets them")
		}
		out = append(out, os.NewFile(uintptr(fd), name))
	}
	return out, nil
}

// parseCount reads LISTEN_FDS.
func parseCount(text string) (int, error) {
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil || n > maxFDs {
		return 0, refusal.New(refusal.Malformed, "LISTEN_FDS is %s, not a number from 0 to %d", op.Shown(text), maxFDs).
			WithHint("unset LISTEN_PID and LISTEN_FDS where no service manager sets them")
	}
	return int(n), nil
}

// Duplicate returns a descriptor of the same socket, which what the process starts does not inherit.
func Duplicate(f *os.File) (*os.File, error) {
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("fcntl", err)
	}
	return os.NewFile(uintptr(fd), f.Name()), nil
}
