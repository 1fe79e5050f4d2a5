package proc

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// OpenPID returns a pidfd of the process that has the pid now, or nil. Use it only to wait: to
// signal a process, a pid is not safe enough.
func OpenPID(pid int) (*FD, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EINVAL) {
		return nil, nil // EINVAL: the number is now a thread's
	}
	if err != nil {
		return nil, fmt.Errorf("pidfd_open: %w", err)
	}
	return NewFD(fd)
}

// Open returns a pidfd of the process with this pid and this start tick, or nil if it is gone.
func Open(pid int, start uint64) (*FD, error) {
	p, err := OpenPID(pid)
	if p == nil || err != nil {
		return nil, err
	}
	// It reads the start time after it opened the pidfd. If the times agree now, the pid
	// belonged to that process then, too.
	now, err := ReadStat(pid)
	if err == nil && now.Start == start {
		return p, nil
	}
	p.Close()
	if err == nil || errors.Is(err, ErrGone) {
		return nil, nil
	}
	return nil, err
}
