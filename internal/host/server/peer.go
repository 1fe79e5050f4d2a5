package server

import (
	"context"
	"fmt"
	"log/slog"
	"net"

	"golang.org/x/sys/unix"

	"gated/internal/host/service"
)

// peerListener accepts connections into a crowd.
type peerListener struct {
	*Socket
	crowd  *crowd
	agents *service.Agents
	log    *slog.Logger
}

// Accept returns the next connection that got a place. It closes a connection if the kernel cannot name its other end,
// because every caller needs a uid.
func (l *peerListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.AcceptUnix()
		if err != nil {
			return nil, err
		}
		p, err := newPeer(conn, l.crowd, l.agents)
		if err != nil {
			l.log.Warn("connection without credentials closed", "error", err)
			_ = conn.Close()
			continue
		}
		victim, ok := l.crowd.join(p)
		if victim != nil {
			_ = victim.UnixConn.Close()
		}
		if !ok {
			_ = p.Close()
			continue
		}
		return p, nil
	}
}

// newPeer asks the kernel which process connected (SO_PEERCRED, unix(7)). The ids are those at connect(2): a connection
// that was handed on still speaks for the process that opened it. agents reads the process now, while its pid is still
// its own; nil agents read nothing.
func newPeer(conn *net.UnixConn, c *crowd, agents *service.Agents) (*peer, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	var cred *unix.Ucred
	var credErr error
	if err := raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return nil, err
	}
	if credErr != nil {
		return nil, fmt.Errorf("SO_PEERCRED: %w", credErr)
	}
	p := &peer{UnixConn: conn, uid: cred.Uid, pid: cred.Pid, crowd: c}
	if agents != nil {
		if p.caller, err = agents.Connected(conn); err != nil {
			return nil, fmt.Errorf("look at the caller's process: %w", err)
		}
	}
	return p, nil
}

type peerKey struct{}

// withPeer is http.Server.ConnContext.
func withPeer(ctx context.Context, c net.Conn) context.Context {
	if p, ok := c.(*peer); ok {
		return context.WithValue(ctx, peerKey{}, p)
	}
	return ctx
}

// peerOf returns the connection's other end, or nil.
func peerOf(ctx context.Context) *peer {
	p, _ := ctx.Value(peerKey{}).(*peer)
	return p
}
