package agent

import (
	"errors"
	"fmt"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"gated/internal/base/proc"
)

// Peer is the process at the other end of a connection: the one that called connect(2), even if it handed the
// connection on.
type Peer struct {
	UID uint32 // its effective uid when it connected
	GID uint32 // its effective gid then
	PID int    // 0 if it cannot be seen from here

	socket syscall.RawConn
	handle Handle // nil if the process is not known
	mu     sync.Mutex
	known  bool    // last and epoch are set
	last   lineage // the lineage that was found last
	epoch  uint64  // of the registry, at that time
}

// Connected asks the kernel which process connected: SO_PEERCRED and, from Linux 6.5 on, SO_PEERPIDFD (unix(7)). An
// older kernel gives only the pid, which another process may get between connect and this call. So the caller calls
// Connected right after accept. A peer that has ended is not an error; it has no name.
func Connected(conn syscall.Conn) (*Peer, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	var p *Peer
	var inner error
	if err := raw.Control(func(fd uintptr) { p, inner = peerOf(int(fd)) }); err != nil {
		return nil, err
	}
	if p != nil {
		p.socket = raw
	}
	return p, inner
}

func peerOf(socket int) (*Peer, error) {
	cred, err := unix.GetsockoptUcred(socket, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return nil, fmt.Errorf("SO_PEERCRED: %w", err)
	}
	p := &Peer{UID: cred.Uid, GID: cred.Gid, PID: int(cred.Pid)}
	if p.PID <= 0 {
		return p, nil // in a PID namespace that is not below ours
	}
	handle, err := peerHandle(socket, p.PID)
	if handle == nil || err != nil {
		return p, err
	}
	p.handle = handle
	return p, nil
}

// peerHandle returns nil if the peer has ended.
func peerHandle(socket, pid int) (*proc.FD, error) {
	fd, err := unix.GetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_PEERPIDFD)
	switch {
	case err == nil:
		return proc.NewFD(fd)
	case errors.Is(err, unix.ENOPROTOOPT):
		return proc.OpenPID(pid)
	case errors.Is(err, unix.ESRCH), errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENODATA):
		return nil, nil // kernels answer this for a reaped process
	}
	return nil, fmt.Errorf("SO_PEERPIDFD: %w", err)
}

// Alive reports whether the peer's process is known and has not ended.
func (p *Peer) Alive() bool { return p.handle != nil && !p.handle.Ended() }

// Close releases the process. The peer then has no name.
func (p *Peer) Close() {
	if p.handle != nil {
		p.handle.Close()
	}
}
