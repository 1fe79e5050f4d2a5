package pg

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// errEnded is what a line answers after Close.
var errEnded = errors.New("the ledger is closed")

// line is one connection, made again if it breaks. One call has it at a time.
type line struct {
	config *pgconn.Config
	limit  time.Duration
	made   bool // the tables must be there

	turn sync.Mutex
	conn *connection

	ctx context.Context // ends with the line
	end context.CancelFunc
}

// connection is a server's session. It has a configuration of its own, because DialFunc changes with its life.
type connection struct {
	*pgconn.PgConn
	live    atomic.Bool // pgconn may dial no more
	warning string      // what the server warned of since the last call began
}

func newLine(config *pgconn.Config, limit time.Duration, made bool) *line {
	l := &line{config: config, limit: limit, made: made}
	l.ctx, l.end = context.WithCancel(context.Background())
	return l
}

// do makes a call on a connection. When the limit or ctx is over, it closes the socket, so that the call fails without a
// cancelled statement. Sent tells whether the call began.
func (l *line) do(ctx context.Context, call func(c *connection) error) (sent bool, err error) {
	return l.carry(ctx, 0, call)
}

// slowest is how many bytes of a large call travel in a second at least.
const slowest = 1 << 20

// carry is do for a call with so many bytes, which have time of their own.
func (l *line) carry(ctx context.Context, bytes int, call func(c *connection) error) (sent bool, err error) {
	l.turn.Lock()
	defer l.turn.Unlock()
	ctx, cancel := context.WithTimeout(ctx, l.limit+time.Duration(bytes)*time.Second/slowest)
	defer cancel()
	defer context.AfterFunc(l.ctx, cancel)()
	connecting, connected := context.WithTimeout(ctx, l.limit)
	c, err := l.connected(connecting)
	connected()
	if err != nil {
		return false, err
	}
	stop := context.AfterFunc(ctx, func() { c.cut() })
	c.warning = ""
	err = call(c)
	if !stop() || err != nil {
		l.drop()
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) && err != nil && !isError(err) {
		err = fmt.Errorf("no answer in time from the server, or for a commit from its synchronous standby: %w", err)
	}
	return true, err
}

// again makes a call that only reads, with so many bytes. If the connection was of earlier, it may have broken since, and a new one is tried.
func (l *line) again(ctx context.Context, bytes int, call func(c *connection) error) error {
	sent, err := l.carry(ctx, bytes, call)
	if sent && err != nil && ctx.Err() == nil && !final(err) {
		_, err = l.carry(ctx, bytes, call)
	}
	return err
}

// drop closes the connection without a word to the server: the next call makes a new one, perhaps to another server.
func (l *line) drop() {
	l.conn.cut()
	l.conn = nil
}

// cut closes the socket, below TLS. A call that waits on it fails, and the server does not notice.
func (c *connection) cut() {
	socket := c.Conn()
	if tls, ok := socket.(*tls.Conn); ok {
		socket = tls.NetConn()
	}
	_ = socket.Close()
}

// close ends the call that is under way, and then the connection.
func (l *line) close() {
	l.end()
	l.turn.Lock()
	defer l.turn.Unlock()
	if l.conn != nil {
		l.drop()
	}
}

// connected returns the connection. It tries again with longer and longer pauses until ctx is over; but a server that
// refuses for a reason of its own is not asked twice.
func (l *line) connected(ctx context.Context) (*connection, error) {
	if l.ctx.Err() != nil {
		return nil, errEnded
	}
	if l.conn != nil && !l.conn.IsClosed() {
		return l.conn, nil
	}
	err := retry(ctx, func() (err error) {
		l.conn, err = l.connect(ctx)
		return err
	})
	return l.conn, err
}

// retry tries until it succeeds, the error is final or ctx is over. It returns the error of the last try that no time-out
// cut: that one says what is wrong.
func retry(ctx context.Context, try func() error) error {
	var why error
	for pause := 20 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		err := try()
		if err == nil || final(err) {
			return err
		}
		if cut := ctx.Err() != nil || pgconn.Timeout(err); why == nil || !cut {
			why = err
		}
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return why
		}
	}
}

// longest bounds the memory, in bytes, for one message of a server, which says its length first.
const longest = 2 * pageSize

// hosts is how many hosts a connection string names.
func hosts(config *pgconn.Config) int {
	type host struct {
		name string
		port uint16
	}
	named := map[host]bool{{config.Host, config.Port}: true}
	for _, f := range config.Fallbacks { // a host that may be tried with and without TLS is there twice
		named[host{f.Host, f.Port}] = true
	}
	return len(named)
}

// takesWrites is for pgconn, which then tries the next host. Its own function of this kind believes each answer.
func takesWrites(ctx context.Context, conn *pgconn.PgConn) error {
	rows, err := oneRow(1).read(conn.ExecParams(ctx, `SHOW transaction_read_only`, nil, nil, nil, nil))
	if err != nil {
		return err
	}
	if len(rows) != 1 || string(rows[0][0]) != "off" {
		return errors.New("read only connection")
	}
	return nil
}

// connect makes one connection to the first host that takes writes.
func (l *line) connect(ctx context.Context) (*connection, error) {
	c := &connection{}
	config := l.config.Copy()
	dial := config.DialFunc
	config.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		if c.live.Load() { // pgconn sends a CancelRequest when a connection breaks
			return nil, errors.New("the ledger cancels no statement")
		}
		return dial(ctx, network, address)
	}
	// Each host has its turn within the limit, also if the connection string allows one of them more.
	if turn := l.limit / time.Duration(1+max(2, hosts(config))); config.ConnectTimeout == 0 || config.ConnectTimeout > turn {
		config.ConnectTimeout = turn
	}
	config.MaxProtocolMessageBodyLen = longest
	for name, value := range session {
		config.RuntimeParams[name] = value
	}
	// What waits for a row ends by itself. The limit does not bound the wait for a standby, and must not.
	config.RuntimeParams["lock_timeout"] = strconv.FormatInt(l.limit.Milliseconds(), 10)
	config.ValidateConnect = takesWrites
	config.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) {
		if n.SeverityUnlocalized == "WARNING" {
			c.warning = n.Message
		}
	}
	conn, err := pgconn.ConnectConfig(ctx, config)
	if err != nil {
		return nil, poolers(err)
	}
	c.PgConn = conn
	c.live.Store(true)
	stop := context.AfterFunc(ctx, func() { c.cut() })
	defer stop()
	if err := c.acceptable(l.made); err != nil {
		c.cut()
		return nil, err
	}
	return c, nil
}
