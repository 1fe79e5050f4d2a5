package server

import (
	"crypto/tls"
	"net"
	"sync"
	"time"
)

// maxStrangers is how many connections may have made no call yet. A call comes after a certificate that is a member's, but
// anybody in the network can connect. So of more strangers the oldest one goes, and members are not kept out.
const maxStrangers = 256

// fewConns bounds how many connections there are at once, and how many of them are strangers'.
type fewConns struct {
	net.Listener
	free   chan struct{}
	closed chan struct{}
	once   sync.Once

	mu        sync.Mutex
	strangers []*oneConn // the oldest one first
	most      int        // of them
}

func newFewConns(l net.Listener, most, strangers int) *fewConns {
	return &fewConns{Listener: l, free: make(chan struct{}, most), closed: make(chan struct{}), most: strangers}
}

// Close ends Accept, also one that waits for a place. The first call does all of it, as that of Socket.Close does.
func (l *fewConns) Close() (err error) {
	l.once.Do(func() {
		close(l.closed)
		err = l.Listener.Close()
	})
	return err
}

// Accept waits for a place. If there are too many strangers, or strangers have the last places, it closes the oldest one.
func (l *fewConns) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if t, ok := conn.(*net.TCPConn); ok {
		_ = t.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3})
	}
	c := &oneConn{Conn: conn, of: l}
	if oldest := l.came(c); oldest != nil {
		_ = oldest.Close()
	}
	select {
	case l.free <- struct{}{}:
		return c, nil
	case <-l.closed:
		_ = conn.Close()
		return nil, net.ErrClosed
	}
}

// came adds a stranger, and returns the one that has to go for it, or nil.
func (l *fewConns) came(c *oneConn) (oldest *oneConn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	full := len(l.free) == cap(l.free) // Accept alone takes places
	if len(l.strangers) == l.most || full && len(l.strangers) > 0 {
		oldest, l.strangers = l.strangers[0], l.strangers[1:]
	}
	l.strangers = append(l.strangers, c)
	return oldest
}

// called takes a connection that made its first call off the strangers.
func (l *fewConns) called(c net.Conn) {
	if t, ok := c.(*tls.Conn); ok {
		l.known(t.NetConn())
	}
}

// known takes a connection off the strangers, because it made a call or is closed.
func (l *fewConns) known(c net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, s := range l.strangers {
		if s == c {
			l.strangers = append(l.strangers[:i:i], l.strangers[i+1:]...)
			return
		}
	}
}

// oneConn gives its place back once.
type oneConn struct {
	net.Conn
	of   *fewConns
	gone sync.Once
}

// Close closes the connection. It may be called more than once.
func (c *oneConn) Close() error {
	err := c.Conn.Close()
	c.gone.Do(func() {
		c.of.known(c)
		<-c.of.free
	})
	return err
}
