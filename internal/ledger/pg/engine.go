// Package pg is a ledger in PostgreSQL: one row a group, appended by one fenced statement that a synchronous standby has
// on disk before anybody is told.
//
// No statement is ever cancelled. PostgreSQL reports a COMMIT that waits for its standby as done if it is cancelled, and
// the row is then on the primary alone. A call that takes too long loses its socket instead, and is in doubt.
package pg

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"gated/internal/base/refusal"
	"gated/internal/ledger"
)

// Settings say where a ledger is, and what it has to promise.
type Settings struct {
	// Connection is a connection string or URL of libpq. It may name several hosts, of which the one that takes writes is
	// used. PostgreSQL's environment variables fill in what it lacks.
	Connection string
	// Gate is the id of the gate, whose groups these are.
	Gate string
	// Single is true if no standby is needed: groups are lost with the server's disk.
	Single bool
	// Limit is how long one call may take; zero for 5 s.
	Limit time.Duration
}

// Engine is a ledger in PostgreSQL. It implements ledger.Engine.
type Engine struct {
	gate   []byte
	single bool
	limit  time.Duration
	secret string // never in an error

	groups *line // Append and Settle
	others *line // Take, Position, Read
	beats  *line

	mu      sync.Mutex
	settled int64 // of the gate's row, which each append must name
	doubt   bool  // Settle has to come next
}

// Open connects to a ledger that Create made, and checks that its server can promise what the settings ask for. A refusal
// says what to do.
func Open(ctx context.Context, s Settings) (*Engine, error) {
	e, err := engine(s, true)
	if err != nil {
		return nil, err
	}
	if err := e.check(ctx); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return e, nil
}

func engine(s Settings, made bool) (*Engine, error) {
	config, err := pgconn.ParseConfig(s.Connection)
	if err != nil { // its text may have the password
		return nil, refusal.New(refusal.BadParams, "the ledger's connection string cannot be read").
			WithHint("it is a URL like postgres://gated@host1,host2/gated or words like host=host1,host2 user=gated, as libpq takes them")
	}
	e := &Engine{gate: []byte(s.Gate), single: s.Single, limit: s.Limit, secret: config.Password, settled: -1}
	if e.limit == 0 {
		e.limit = 5 * time.Second
	}
	e.groups, e.others, e.beats = newLine(config, e.limit, made), newLine(config, e.limit, made), newLine(config, e.limit, made)
	e.groups.repeats, e.beats.repeats = true, true
	return e, nil
}

// Close implements ledger.Engine.
func (e *Engine) Close() error {
	for _, l := range []*line{e.groups, e.others, e.beats} {
		l.close()
	}
	return nil
}

// unavailable says that nothing was kept, without the password.
func (e *Engine) unavailable(err error) error {
	if err == nil || errors.Is(err, ledger.ErrUnavailable) || errors.Is(err, ledger.ErrFenced) {
		return err
	}
	if r := new(refusal.Refusal); errors.As(err, &r) {
		return fmt.Errorf("%w: %w", ledger.ErrUnavailable, r)
	}
	return fmt.Errorf("%w: %s", ledger.ErrUnavailable, e.says(err))
}

// says is the text of an error without the password.
func (e *Engine) says(err error) string {
	if e.secret == "" {
		return err.Error()
	}
	return strings.ReplaceAll(err.Error(), e.secret, "…")
}

// number is a bigint of PostgreSQL.
func number(n uint64) (int64, error) {
	if n > math.MaxInt64 {
		return 0, fmt.Errorf("%w: %d is above the numbers of PostgreSQL", ledger.ErrUnavailable, n)
	}
	return int64(n), nil
}

// numbers are two bigints of PostgreSQL.
func numbers(a, b uint64) (int64, int64, error) {
	n, err := number(a)
	if err != nil {
		return 0, 0, err
	}
	m, err := number(b)
	return n, m, err
}

var _ ledger.Engine = (*Engine)(nil)
