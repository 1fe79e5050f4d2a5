package server

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"
)

// unreadFor is how long a server that stops waits for calls on connections it has accepted. A client sends its call as soon as
// it is connected.
const unreadFor = time.Second

// unread has the accepted connections whose first call is not read yet. http.Server.Shutdown closes such a connection without an
// answer, also if the call is on its way. A socket unit's callers are promised that they only wait while the daemon restarts.
type unread struct {
	mu    sync.Mutex
	conns map[net.Conn]struct{}
	fewer chan struct{} // holds one element after a connection left
}

func newUnread() *unread {
	return &unread{conns: map[net.Conn]struct{}{}, fewer: make(chan struct{}, 1)}
}

// watch has u follow h's connections, from Accept to the first call's handler or to the connection's end. It tells called of each
// first call, unless called is nil.
func (u *unread) watch(h *http.Server, called func(net.Conn)) {
	type connKey struct{}
	with, handler := h.ConnContext, h.Handler
	h.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		u.mu.Lock()
		u.conns[c] = struct{}{}
		u.mu.Unlock()
		if with != nil {
			ctx = with(ctx, c)
		}
		return context.WithValue(ctx, connKey{}, c)
	}
	h.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, ok := r.Context().Value(connKey{}).(net.Conn); ok && u.leave(c) && called != nil {
			called(c)
		}
		handler.ServeHTTP(w, r)
	})
	h.ConnState = func(c net.Conn, state http.ConnState) {
		if state == http.StateClosed {
			u.leave(c)
		}
	}
}

// leave reports if the connection was still without a call.
func (u *unread) leave(c net.Conn) (first bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	_, first = u.conns[c]
	delete(u.conns, c)
	select {
	case u.fewer <- struct{}{}:
	default:
	}
	return first
}

// wait returns when each connection has had its first call, or when ctx ends. It closes those without a call then, because
// http.Server.Shutdown would wait for them until they are five seconds old.
func (u *unread) wait(ctx context.Context) {
	for {
		u.mu.Lock()
		n := len(u.conns)
		if ctx.Err() != nil {
			for c := range u.conns {
				_ = c.Close()
			}
			n = 0
		}
		u.mu.Unlock()
		if n == 0 {
			return
		}
		select {
		case <-u.fewer:
		case <-ctx.Done():
		}
	}
}
