package proc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// FD is a pidfd: a handle on one process that no other process can come to
// stand for. The runtime's poller waits on it, so that waiting costs no thread.
type FD struct {
	f      *os.File
	mu     sync.RWMutex // held for reading while the descriptor is in use
	closed bool
}

// NewFD takes over a descriptor that is a pidfd. It is closed if that fails.
func NewFD(fd int) (*FD, error) {
	if err := unix.SetNonblock(fd, true); err != nil { // what makes os.NewFile poll it
		_ = unix.Close(fd)
		return nil, fmt.Errorf("pidfd: %w", err)
	}
	return &FD{f: os.NewFile(uintptr(fd), "pidfd")}, nil
}

// Close ends every wait; signals that come later find os.ErrClosed.
func (p *FD) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	_ = p.f.Close()
}

// control runs fn with the descriptor, which stays open and is not made
// blocking meanwhile.
func (p *FD) control(fn func(fd int) error) error {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if p.closed {
		return os.ErrClosed
	}
	raw, err := p.f.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	if err := raw.Control(func(fd uintptr) { inner = fn(int(fd)) }); err != nil {
		return err
	}
	return inner
}

func readable(fd int) bool {
	p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	n, err := unix.Poll(p, 0)
	return err == nil && n == 1 && p[0].Revents != 0
}

// Ended reports whether the process has ended, reaped or not.
func (p *FD) Ended() bool {
	var done bool
	err := p.control(func(fd int) error { done = readable(fd); return nil })
	return err == nil && done
}

// Signal sends a signal to the process; one that has ended is no error.
func (p *FD) Signal(sig unix.Signal) error { return p.send(sig, 0) }

// SignalGroup sends a signal to the process group that the process leads or
// led, even after its leader was reaped: the pidfd holds on to the group's
// identity, too. The kernel has this from 6.9; before, it is EINVAL.
func (p *FD) SignalGroup(sig unix.Signal) error {
	return p.send(sig, unix.PIDFD_SIGNAL_PROCESS_GROUP)
}

func (p *FD) send(sig unix.Signal, flags int) error {
	err := p.control(func(fd int) error { return unix.PidfdSendSignal(fd, sig, nil, flags) })
	if errors.Is(err, unix.ESRCH) || errors.Is(err, os.ErrClosed) { // closed: its end was seen
		return nil
	}
	return err
}

// Wait returns when the process has ended (nil), ctx is done (its error) or
// Close was called (another error). One wait at a time.
func (p *FD) Wait(ctx context.Context) error {
	raw, err := p.f.SyscallConn()
	if err != nil {
		return err
	}
	// Pollable files understand deadlines; one in the past ends the wait.
	stop := context.AfterFunc(ctx, func() { _ = p.f.SetReadDeadline(time.Unix(1, 0)) })
	defer func() {
		if !stop() {
			_ = p.f.SetReadDeadline(time.Time{})
		}
	}()
	err = raw.Read(func(fd uintptr) bool { return readable(int(fd)) })
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return ctx.Err()
	}
	return err
}

// Reap collects the process if it is a child of ours that has ended.
func (p *FD) Reap() {
	_ = p.control(func(fd int) error {
		return unix.Waitid(unix.P_PIDFD, fd, nil, unix.WEXITED|unix.WNOHANG, nil)
	}) // ECHILD: init has collected it
}
