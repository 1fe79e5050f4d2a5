package access

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

// The bounds of connections.
const (
	maxConns  = 800
	maxOfOne  = 200      // of one client
	maxHeader = 16 << 10 // bytes
	// endTime is how long answers under way may take after Serve has to end.
	endTime = 5 * time.Second
)

// waits are how long a client may take. Else a few clients that do nothing would have all connections.
type waits struct {
	header time.Duration
	body   time.Duration // a whole one
	write  time.Duration // to take what is written; over HTTP/2 a whole answer, but for streams
	idle   time.Duration
}

var usualWaits = waits{header: 10 * time.Second, body: 30 * time.Second, write: time.Minute, idle: time.Minute}

// Serve answers at all listeners with the wall in front of next, until ctx ends. Streams end then, and other answers may
// go on for a few seconds. It closes the listeners. With a certificate it speaks TLS.
func (w *Wall) Serve(ctx context.Context, next http.Handler, cert *Certificate, listeners ...net.Listener) error {
	// A timeout for reads would also end the contexts of answers that take longer than it. Handler bounds bodies. The one for
	// writes is that of HTTP/2, where a client need not take what is sent; placed has that of a connection.
	s := &http.Server{Handler: w.Handler(next), ReadHeaderTimeout: w.waits.header, IdleTimeout: w.waits.idle, WriteTimeout: w.waits.write,
		MaxHeaderBytes: maxHeader, ConnContext: w.who,
		ErrorLog: slog.NewLogLogger(w.config.Logger.Handler(), slog.LevelDebug)}
	places, all := make(chan struct{}, maxConns), &crowd{most: maxOfOne, of: map[string]int{}}
	ended := make(chan error, len(listeners))
	for _, l := range listeners {
		l = &bounded{Listener: l, places: places, closed: make(chan struct{}), ends: func() time.Time { return w.config.Now().Add(w.waits.write) }}
		if !w.config.Local && !w.config.Proxied { // where all connections are of one client
			l.(*bounded).crowd = all
		}
		if cert != nil {
			l = tls.NewListener(l, cert.config())
		}
		go func() { ended <- s.Serve(l) }()
	}
	var err error
	running := len(listeners)
	select {
	case <-ctx.Done():
	case err = <-ended:
		running--
	}
	close(w.stopping)
	bound, stop := context.WithTimeout(context.WithoutCancel(ctx), endTime)
	defer stop()
	if s.Shutdown(bound) != nil {
		_ = s.Close() // what still runs then has no more time
	}
	for range running {
		<-ended
	}
	if errors.Is(err, http.ErrServerClosed) {
		err = nil
	}
	return err
}

// bounded accepts no more connections than there are places.
type bounded struct {
	net.Listener
	places chan struct{}
	once   sync.Once
	closed chan struct{}
	ends   func() time.Time // of a write that begins now
	crowd  *crowd           // nil: one client may have all places
}

// crowd counts the connections of each client.
type crowd struct {
	most int

	mu sync.Mutex
	of map[string]int
}

// enter counts a connection of a client. It is false if the client has most of them already.
func (c *crowd) enter(client string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of[client] >= c.most {
		return false
	}
	c.of[client]++
	return true
}

func (c *crowd) leave(client string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of[client]--; c.of[client] == 0 {
		delete(c.of, client)
	}
}

// Accept waits for a place, and then for a connection. It closes those of a client that has too many.
func (b *bounded) Accept() (net.Conn, error) {
	for {
		c, err := b.accept()
		switch {
		case err != nil:
			return nil, err
		case b.crowd == nil:
			return c, nil
		}
		host, _, _ := net.SplitHostPort(c.RemoteAddr().String())
		client := household(host)
		if b.crowd.enter(client) {
			give := c.give
			c.give = sync.OnceFunc(func() { give(); b.crowd.leave(client) })
			return c, nil
		}
		_ = c.Close() // the client sees that it ended
	}
}

func (b *bounded) accept() (*placed, error) {
	select {
	case b.places <- struct{}{}:
	case <-b.closed:
		return nil, net.ErrClosed
	}
	c, err := b.Listener.Accept()
	if err != nil {
		<-b.places
		return nil, err
	}
	return &placed{Conn: c, give: sync.OnceFunc(func() { <-b.places }), ends: b.ends}, nil
}

// Close ends Accept.
func (b *bounded) Close() error {
	b.once.Do(func() { close(b.closed) })
	return b.Listener.Close()
}

// placed gives its place back when it is closed.
type placed struct {
	net.Conn
	give func()
	ends func() time.Time
}

// Write gives a client that reads nothing so much time. It counts for each write, so an answer that waits for an operator may take long.
func (p *placed) Write(b []byte) (int, error) {
	if err := p.Conn.SetWriteDeadline(p.ends()); err != nil {
		return 0, err
	}
	return p.Conn.Write(b)
}

func (p *placed) Close() error {
	defer p.give()
	return p.Conn.Close()
}
