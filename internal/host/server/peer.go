package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"

	"golang.org/x/sys/unix"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
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

// maxToken is the longest token that the server looks up, in bytes. The registry checks the exact length.
const maxToken = 128

// identify returns the requester at this moment: a name can end while its connection stays. With an error it is the
// bare uid. A wrong token is refused, and the process does not count then: otherwise a withdrawn token would still work
// for an agent's descendants.
func (s *Server) identify(r *http.Request) (op.Requester, error) {
	p := peerOf(r.Context())
	if p.of != nil {
		return op.Requester{Source: op.SourceAPI, UID: p.of.UID, PID: p.pid, Agent: p.agent, Set: p.of.Member}, nil
	}
	by := op.Requester{Source: op.SourceAPI, UID: p.uid, PID: p.pid, Set: s.member()}
	token, err := agentToken(r.Header)
	if err != nil {
		return by, err
	}
	if p.caller == nil {
		if token != "" {
			err = ownRefusal(refusal.New(refusal.NotAllowed, "this gate knows no tokens").
				WithHint("call without %s", api.TokenHeader))
		}
		return by, err
	}
	agent, err := p.caller.Who(token)
	var refused *refusal.Refusal
	switch {
	case errors.As(err, &refused):
		return by, ownRefusal(err)
	case err != nil:
		return by, err
	}
	by.Agent = agent
	return by, nil
}

// agentToken returns the header's one value, "" if there is none. It is secret: no refusal repeats it.
func agentToken(h http.Header) (string, error) {
	values := h.Values(api.TokenHeader)
	if len(values) == 0 {
		return "", nil
	}
	token := values[0]
	bad := len(values) > 1 || token == "" || len(token) > maxToken
	for i := 0; i < len(token) && !bad; i++ {
		bad = !inToken(token[i])
	}
	if bad {
		return "", errToken()
	}
	return token, nil
}

func errToken() error {
	err := refusal.New(refusal.Malformed, "%s is not one value of 1 to %d characters A-Z a-z 0-9 _ and -",
		api.TokenHeader, maxToken)
	return ownRefusal(err)
}

func inToken(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-'
}

type requesterKey struct{}

func withRequester(r *http.Request, by op.Requester) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), requesterKey{}, by))
}

// requesterOf returns the requester, as it was identified last.
func requesterOf(ctx context.Context) op.Requester {
	by, _ := ctx.Value(requesterKey{}).(op.Requester)
	return by
}
