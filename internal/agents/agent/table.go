package agent

import (
	"context"

	"gated/internal/base/proc"
)

// Table reads processes: the kernel's, or a test's.
type Table interface {
	// Read returns the present state of a pid's process, or proc.ErrGone if no process has the pid.
	Read(pid int) (proc.Process, error)
	// ReadStat is Read without uids and namespaces.
	ReadStat(pid int) (proc.Process, error)
	// Open returns a handle on the process with this pid and start tick, or nil if there is none.
	Open(pid int, start uint64) (Handle, error)
}

// Handle is a pidfd, or a test's.
type Handle interface {
	// Ended reports whether the process has ended.
	Ended() bool
	// Wait returns nil when the process has ended, or the reason why it stopped waiting.
	Wait(ctx context.Context) error
	Close()
}

// kernel is the Table of the machine.
type kernel struct{}

func (kernel) Read(pid int) (proc.Process, error)     { return proc.Read(pid) }
func (kernel) ReadStat(pid int) (proc.Process, error) { return proc.ReadStat(pid) }

func (kernel) Open(pid int, start uint64) (Handle, error) {
	fd, err := proc.Open(pid, start)
	if fd == nil {
		return nil, err // a nil *proc.FD in a Handle would not be nil
	}
	return fd, nil
}
