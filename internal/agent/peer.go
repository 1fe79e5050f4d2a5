package agent

import (
	"errors"
	"fmt"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"gated/internal/proc"
)

// Peer is the process at the other end of a connection: the one that called
// connect(2), also if the connection was handed on since.
type Peer struct {
	UID uint32 // its effective uid when it connected
	GID uint32 // its effective gid then
	PID int    // 0 where it cannot be seen from here

	socket syscall.RawConn
	handle Handle // nil where nobody knows which process it was
	mu     sync.Mutex
	known  bool    // there is a last one
	last   lineage // that was found
	epoch  uint64  // of the registry, when it was
}

// Connected asks the kernel who connected: SO_PEERCRED and, from Linux 6.5 on,
// SO_PEERPIDFD (unix(7)). An older kernel gives the number alone: that another
// process got it between connect and this call is then not noticed, so this is
// called right after accept. A peer that has ended already is no error; it has
// no name.
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

// peerHandle returns nil where the peer has ended.
func peerHandle(socket, pid int) (*proc.FD, error) {
	fd, err := unix.GetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_PEERPIDFD)
	switch {
	case err == nil:
		return proc.NewFD(fd)
	case errors.Is(err, unix.ENOPROTOOPT):
		return proc.OpenPID(pid)
	case errors.Is(err, unix.ESRCH), errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENODATA):
		return nil, nil // what kernels say of one that was reaped
	}
	return nil, fmt.Errorf("SO_PEERPIDFD: %w", err)
}

// Alive reports whether the peer is known and has not ended.
func (p *Peer) Alive() bool { return p.handle != nil && !p.handle.Ended() }

// Close lets go of the process. The peer has no name any more.
func (p *Peer) Close() {
	if p.handle != nil {
		p.handle.Close()
	}
}
