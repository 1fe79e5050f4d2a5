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

// FD is a pidfd: a handle on one process that never changes to another process. The runtime's
// poller waits on it, so that waiting costs no thread.
type FD struct {
	f      *os.File
	mu     sync.RWMutex // a reader holds it while it uses the descriptor
	closed bool
}

// NewFD takes over a pidfd. If NewFD fails, it closes the descriptor.
func NewFD(fd int) (*FD, error) {
	if err := unix.SetNonblock(fd, true); err != nil { // so that os.NewFile polls it
		_ = unix.Close(fd)
		return nil, fmt.Errorf("pidfd: %w", err)
	}
	return &FD{f: os.NewFile(uintptr(fd), "pidfd")}, nil
}

// Close ends every wait. Later signals get os.ErrClosed.
func (p *FD) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	_ = p.f.Close()
}

// control runs fn with the descriptor. Meanwhile the descriptor stays open and non-blocking.
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

// Signal sends a signal to the process. If the process has ended, that is no error.
func (p *FD) Signal(sig unix.Signal) error { return p.send(sig, 0) }

// SignalGroup sends a signal to the process group that the process leads or led. It works even
// after the leader was reaped, because the pidfd also keeps the group's identity. The kernel
// has this since 6.9; before, the error is EINVAL.
func (p *FD) SignalGroup(sig unix.Signal) error {
	return p.send(sig, unix.PIDFD_SIGNAL_PROCESS_GROUP)
}

func (p *FD) send(sig unix.Signal, flags int) error {
	err := p.control(func(fd int) error { return unix.PidfdSendSignal(fd, sig, nil, flags) })
	if errors.Is(err, unix.ESRCH) || errors.Is(err, os.ErrClosed) { // closed means that its end was seen
		return nil
	}
	return err
}

// Wait returns nil when the process has ended, the error of ctx when ctx is done, and another
// error after Close. Only one Wait may run at a time.
func (p *FD) Wait(ctx context.Context) error {
	raw, err := p.f.SyscallConn()
	if err != nil {
		return err
	}
	// A file that can be polled has deadlines. A deadline in the past ends the wait.
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

// Reap collects the process if it is a child of this process that has ended.
func (p *FD) Reap() {
	_ = p.control(func(fd int) error {
		return unix.Waitid(unix.P_PIDFD, fd, nil, unix.WEXITED|unix.WNOHANG, nil)
	}) // ECHILD: init has collected it
}
