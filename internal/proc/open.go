package proc

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// OpenPID returns a pidfd of whatever process has the pid now, or nil if none
// has. It is for waiting alone: a pid is not enough to signal by.
func OpenPID(pid int) (*FD, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EINVAL) {
		return nil, nil // EINVAL: no longer a process but a thread's number
	}
	if err != nil {
		return nil, fmt.Errorf("pidfd_open: %w", err)
	}
	return NewFD(fd)
}

// Open returns a pidfd of the process that has this pid and started at this
// tick, or nil if there is no such process any more.
func Open(pid int, start uint64) (*FD, error) {
	p, err := OpenPID(pid)
	if p == nil || err != nil {
		return nil, err
	}
	// Read after the pidfd was opened: if the times agree now, the pid belonged to
	// that process then, too.
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
