// Package pgpool asks PostgreSQL: a few connections that are made again when they break, transactions of one round trip
// without a session's state, and refusals that say what to do and never show the password.
package pgpool

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"gated/internal/base/refusal"
)

// Settings say where a database is.
type Settings struct {
	// Connection is a connection string or URL of libpq. It may name several hosts, of which the one that takes writes is
	// used. PostgreSQL's environment variables and password file fill in what it lacks.
	Connection string
	// What names the database in sentences: "the hub's database".
	What string
	// Made says what makes the database and its tables: "gated hub create".
	Made string
	// Size is how many connections there are at most.
	Size int
	// Limit is how long one call may take, with the wait for a connection.
	Limit time.Duration
	// Accept checks the server behind a new connection. A refusal of it is final; nil accepts each.
	Accept func(context.Context, *Conn) error
}

// Pool is some connections. It is safe for concurrent use.
type Pool struct {
	Settings
	config *pgconn.Config
	free   chan *Conn // nil is a connection that is not made yet

	mu    sync.Mutex
	ended bool
}

// Conn is one connection. One goroutine uses it at a time.
type Conn struct {
	*pgconn.PgConn
	pool    *Pool
	warning string // what the server warned of in this call
}

// New returns a pool without a connection. A connection string that cannot be read is BadParams.
func New(s Settings) (*Pool, error) {
	config, err := pgconn.ParseConfig(s.Connection)
	if err != nil { // its text may have the password
		return nil, refusal.New(refusal.BadParams, "the connection string of %s cannot be read", s.What).
			WithHint("it is a URL like postgres://gated@host1,host2/gated or words like host=host1,host2 user=gated, as libpq takes them")
	}
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = s.Limit / 3 // so that a second host has its turn
	}
	config.ValidateConnect = takesWrites
	p := &Pool{Settings: s, config: config, free: make(chan *Conn, s.Size)}
	for range s.Size {
		p.free <- nil
	}
	return p, nil
}

// errReadOnly is the error for a server that takes no writes.
var errReadOnly = errors.New("it is read-only")

// takesWrites makes pgconn go on to the next host if a server takes no writes.
func takesWrites(ctx context.Context, conn *pgconn.PgConn) error {
	r := conn.ExecParams(ctx, "SELECT current_setting('transaction_read_only')", nil, nil, nil, nil).Read()
	switch {
	case r.Err != nil:
		return r.Err
	case len(r.Rows) != 1 || string(r.Rows[0][0]) != "off":
		return errReadOnly
	}
	return nil
}

// Close closes each connection once its call has ended. Calling it again does nothing.
func (p *Pool) Close() {
	p.mu.Lock()
	again := p.ended
	p.ended = true
	p.mu.Unlock()
	if again {
		return
	}
	for range p.Size {
		if c := <-p.free; c != nil {
			c.close()
		}
	}
}

// Do makes a call on a connection within the limit. If ctx ends before the call begins, it is not made. A call that began
// goes on after that, because its answer keeps the connection whole. The error is a *refusal.Refusal.
func (p *Pool) Do(ctx context.Context, call func(context.Context, *Conn) error) error {
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.Limit)
	defer cancel()
	var c *Conn
	select {
	case c = <-p.free:
	case <-ctx.Done():
		return refusal.New(refusal.Unavailable, "the caller is gone")
	case <-within.Done():
		return refusal.New(refusal.Unavailable, "all %d connections to %s are in use", p.Size, p.What).
			WithHint("the database is slow or the load is high; it is tried again later")
	}
	defer func() { p.free <- c }()
	if p.closed() {
		return refusal.New(refusal.Unavailable, "%s is closed", p.What)
	}
	if c != nil && c.IsClosed() {
		c = nil
	}
	if c == nil {
		var err error
		if c, err = p.connect(within); err != nil {
			return err
		}
	}
	c.warning = ""
	err := call(within, c)
	if err != nil && !plain(err) {
		c.close()
		c = nil
	}
	return p.refused(err)
}

func (p *Pool) closed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ended
}

// connect makes one connection to the first host that takes writes.
func (p *Pool) connect(ctx context.Context) (*Conn, error) {
	c := &Conn{pool: p}
	config := p.config.Copy()
	config.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) {
		if n.SeverityUnlocalized == "WARNING" {
			c.warning = n.Message
		}
	}
	conn, err := pgconn.ConnectConfig(ctx, config)
	if err != nil {
		return nil, p.refused(err)
	}
	c.PgConn = conn
	c.warning = "" // of the session, such as one about the database's collation
	if p.Accept != nil {
		if err := p.Accept(ctx, c); err != nil {
			c.close()
			return nil, p.refused(err)
		}
	}
	return c, nil
}

// close closes the socket. The server sees that and ends the session.
func (c *Conn) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = c.Close(ctx) // it is given up in any case
}

// plain reports whether a connection can be used on after an error: the server refused a statement, or a refusal is the
// caller's own. A server that has become read-only is left, because another may take writes now.
func plain(err error) bool {
	var own *refusal.Refusal
	var from *pgconn.PgError
	if errors.As(err, &from) {
		return from.SeverityUnlocalized == "ERROR" && from.Code != readOnly
	}
	return errors.As(err, &own) && !errors.Is(err, refusal.Unavailable)
}
