package agent

import (
	"context"

	"gated/internal/proc"
)

// Table is where processes are looked at: the kernel's own, or a test's.
type Table interface {
	// Read returns what is true of a pid now, proc.ErrGone if no process has it.
	Read(pid int) (proc.Process, error)
	// ReadStat is Read without uids and namespaces.
	ReadStat(pid int) (proc.Process, error)
	// Open returns a handle on the process that has this pid and started at this
	// tick, nil if there is none any more.
	Open(pid int, start uint64) (Handle, error)
}

// Handle is a pidfd, or a test's.
type Handle interface {
	// Ended reports whether the process has ended.
	Ended() bool
	// Wait returns nil when the process has ended, else why it stopped waiting.
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
		return nil, err // a nil *proc.FD would be a Handle that is not nil
	}
	return fd, nil
}
