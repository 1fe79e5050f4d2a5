package store

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

var errConnClosed = errors.New("store: the connection is closed")

// maxCached bounds the statements that a connection keeps prepared. Queries are constants of the program, so more of
// them mean that code builds SQL at run time. Such statements work, but slowly.
const maxCached = 512

// maxKeptText bounds the memory for arguments, in bytes, that a statement keeps between two uses. A statement with more
// is prepared again.
const maxKeptText = 64 << 10

// connect opens a connection of the driver.
func connect(ctx context.Context, from driver.Connector) (*conn, error) {
	inner, err := from.Connect(ctx)
	if err != nil {
		return nil, err
	}
	raw, ok := inner.(rawConn)
	if !ok {
		return nil, errors.Join(errors.New("the sqlite driver lacks a method the store needs"), inner.Close())
	}
	e, err := engineOf(inner)
	if err == nil {
		err = e.keepPlans()
	}
	if err != nil {
		return nil, errors.Join(err, inner.Close())
	}
	c := &conn{rawConn: raw, engine: e, stmts: make(map[string]*stmt), own: make(map[string]*stmt)}
	raw.RegisterRollbackHook(func() { c.rolledBack = true })
	raw.RegisterCommitHook(c.onCommit)
	return c, nil
}

// onCommit is SQLite's commit hook: anything but 0 makes the COMMIT fail.
func (c *conn) onCommit() int32 {
	if c.mayCommit {
		return 0
	}
	return 1
}

// rawConn is what the store needs from the driver's connection. Its ExecContext takes scripts.
type rawConn interface {
	driver.Conn
	driver.ExecerContext
	RegisterCommitHook(sqlite.CommitHookFn)
	RegisterRollbackHook(sqlite.RollbackHookFn)
}

// conn is the driver's connection, on which the store runs statements itself. It keeps them prepared. It sees every
// error, even if the caller ignores it. It notices when SQLite itself ended a transaction, and stops each COMMIT that
// the store did not ask for.
//
// SQLite's memory belongs to one goroutine at a time, as a session does.
type conn struct {
	rawConn
	engine
	stmts map[string]*stmt // callers' statements, vetted
	own   map[string]*stmt // the store's, which callers may not run

	internal   bool  // the store's own statement is running: no vetting
	mayCommit  bool  // the commit hook lets a COMMIT through
	inTx       bool  // between begin and commit or rollback
	rolledBack bool  // SQLite rolled the transaction back
	failed     error // the first machine failure since begin

	capture *capture // nil unless changes are kept elsewhere
}

// exec runs a statement to its end.
func (c *conn) exec(query string, args []any) error { return c.note(c.execute(query, args)) }

// execute is exec for a statement whose error does not count as one of the transaction.
func (c *conn) execute(query string, args []any) error {
	st, err := c.take(query)
	if err != nil {
		return err
	}
	defer c.give(st)
	if err := c.bind(st, args); err != nil {
		return err
	}
	before := c.capture.length()
	if err := c.run(st); err != nil {
		c.capture.cut(before)
		return err
	}
	return nil
}

// query begins a query, and steps to its first row. So a statement that writes has written when query returns, even if
// its caller reads no row.
func (c *conn) query(query string, args []any, into *Rows) {
	st, err := c.take(query)
	if err != nil {
		into.err = c.note(err)
		return
	}
	defer func() {
		if into.st == nil { // it is not bound: an error, or an argument that panics
			c.give(st)
		}
	}()
	if err := c.bind(st, args); err != nil {
		into.err = c.note(err)
		return
	}
	into.c, into.st = c, st
	before := c.capture.length()
	if into.waiting = into.step(); into.err != nil {
		c.capture.cut(before)
	}
}

// script runs statements of the store's own, which take no arguments.
func (c *conn) script(queries string) error {
	if c.gone() {
		return errConnClosed
	}
	_, err := c.rawConn.ExecContext(context.Background(), queries, nil)
	return c.note(err)
}

// take returns the statement for query, prepared and not in use by open rows.
func (c *conn) take(query string) (*stmt, error) {
	if c.gone() {
		return nil, errConnClosed
	}
	if c.inTx && !c.internal {
		if err := c.lost(); err != nil {
			return nil, unavailable(err)
		}
	}
	cache := c.stmts
	if c.internal {
		cache = c.own
	}
	if st := cache[query]; st != nil && !st.busy {
		st.busy = true
		return st, nil
	}
	if !c.internal {
		if err := vet(query); err != nil {
			return nil, err
		}
		if c.capture != nil {
			if err := vetCaptured(query); err != nil {
				return nil, err
			}
		}
	}
	st, err := c.prepare(query)
	if err != nil {
		return nil, err
	}
	st.busy = true
	if _, taken := cache[query]; !taken && len(cache) < maxCached {
		st.kept, st.query = cache, query
		cache[query] = st
	}
	return st, nil
}

// give returns a statement after use. It must be reset.
func (c *conn) give(st *stmt) {
	st.busy = false
	if st.kept != nil && !st.unfit && st.room <= maxKeptText {
		return
	}
	delete(st.kept, st.query) // nothing if it is in no map
	c.finalize(st)
}

// lost returns why the store's transaction is gone or must not be committed, or nil.
func (c *conn) lost() error {
	if c.failed != nil {
		return c.failed
	}
	if c.rolledBack {
		return errors.New("SQLite ended the transaction")
	}
	return nil
}

// note remembers a machine failure and marks err by its kind.
func (c *conn) note(err error) error {
	if err == nil {
		return nil
	}
	switch code := resultCode(err); {
	case machineFailure(code):
		if c.failed == nil {
			c.failed = err
		}
		return unavailable(err)
	case code == sqlite3.SQLITE_CONSTRAINT:
		return fmt.Errorf("%w: %w", ErrConstraint, err)
	default:
		return err
	}
}

// Close closes the connection and its statements.
func (c *conn) Close() error {
	for _, cache := range []map[string]*stmt{c.stmts, c.own} {
		for _, st := range cache {
			c.finalize(st)
		}
		clear(cache)
	}
	c.capture.free()
	err := c.rawConn.Close()
	c.engine = engine{} // its memory is gone
	return err
}

// hooks are the functions registered with OnGroup and OnCommit.
type hooks struct {
	mu       sync.Mutex
	onGroup  []func(*Tx) error
	onCommit []func()
	now      func() time.Time
	took     func(time.Duration)
}

// timer returns a function that tells how long ago timer was called.
func (h *hooks) timer() (told func()) {
	h.mu.Lock()
	now, took := h.now, h.took
	h.mu.Unlock()
	if took == nil {
		return func() {}
	}
	began := now()
	return func() { took(now().Sub(began)) }
}

// TimeCommits has took called with how long each COMMIT took, kept or not, by the clock now. It runs on the writer's
// goroutine: it must not block.
func (s *Store) TimeCommits(now func() time.Time, took func(time.Duration)) {
	s.hooks.mu.Lock()
	defer s.hooks.mu.Unlock()
	s.hooks.now, s.hooks.took = now, took
}

func (h *hooks) group() []func(*Tx) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.onGroup
}

func (h *hooks) commit() []func() {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.onCommit
}

// OnGroup registers a function that runs once per group, after the calls' own
// and before COMMIT, in the order of registration. It sees what the group
// keeps. An error of it, or a panic, drops the whole group: all its callers
// get ErrUnavailable. It does not run for a group that keeps nothing.
func (s *Store) OnGroup(fn func(*Tx) error) {
	s.hooks.mu.Lock()
	defer s.hooks.mu.Unlock()
	s.hooks.onGroup = append(slices.Clip(s.hooks.onGroup), fn)
}

// OnCommit registers a function that runs after each successful COMMIT, before
// the group's callers are answered. It runs on the writer's goroutine: it must
// not block and not call Update.
func (s *Store) OnCommit(fn func()) {
	s.hooks.mu.Lock()
	defer s.hooks.mu.Unlock()
	s.hooks.onCommit = append(slices.Clip(s.hooks.onCommit), fn)
}
