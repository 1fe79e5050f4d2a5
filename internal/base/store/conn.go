package store

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// maxCached bounds the statements that a connection keeps prepared. Queries are constants of the program, so more of
// them mean that code builds SQL at run time. Such statements work, but slowly.
const maxCached = 512

// connector opens the store's connections around the driver's.
type connector struct{ driver.Connector }

// Connect opens one connection.
func (k connector) Connect(ctx context.Context) (driver.Conn, error) {
	inner, err := k.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	raw, ok := inner.(rawConn)
	if !ok {
		return nil, errors.Join(errors.New("the sqlite driver lacks a method the store needs"), inner.Close())
	}
	c := &conn{rawConn: raw, stmts: make(map[string]*stmt), own: make(map[string]*stmt)}
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

// rawConn is what the store needs from the driver's connection.
type rawConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	RegisterCommitHook(sqlite.CommitHookFn)
	RegisterRollbackHook(sqlite.RollbackHookFn)
}

// conn wraps the driver's connection for three things that database/sql cannot do. It keeps statements prepared. It
// sees every error, even if the caller ignores it. It notices when SQLite itself ended a transaction, and stops each
// COMMIT that the store did not ask for.
//
// database/sql holds its lock around every call, so the fields need none.
type conn struct {
	rawConn
	stmts map[string]*stmt // callers' statements, vetted
	own   map[string]*stmt // the store's, which callers may not run

	internal   bool  // the store's own statement is running: no vetting
	mayCommit  bool  // the commit hook lets a COMMIT through
	inTx       bool  // between begin and commit or rollback
	rolledBack bool  // SQLite rolled the transaction back
	failed     error // the first machine failure since begin
}

// stmt is a prepared statement.
type stmt struct {
	driver.Stmt
	cached bool
	busy   bool // rows of it are open
}

// ExecContext runs a statement. ctx only carries a reason not to run it. The driver gets no context that can be
// cancelled, because a cancelled statement ends the whole transaction.
func (c *conn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	st, err := c.take(ctx, query)
	if err != nil {
		return nil, err
	}
	defer c.give(st)
	res, err := st.Stmt.(driver.StmtExecContext).ExecContext(context.Background(), args)
	if err != nil {
		return nil, c.note(err)
	}
	return res, nil
}

// QueryContext runs a query; see ExecContext about ctx.
func (c *conn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	st, err := c.take(ctx, query)
	if err != nil {
		return nil, err
	}
	r, err := st.Stmt.(driver.StmtQueryContext).QueryContext(context.Background(), args)
	if err != nil {
		c.give(st)
		return nil, c.note(err)
	}
	return &rows{Rows: r, c: c, st: st}, nil
}

// take returns the statement for query, prepared and not in use by open rows.
func (c *conn) take(ctx context.Context, query string) (*stmt, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
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
	}
	inner, err := c.PrepareContext(context.Background(), query)
	if err != nil {
		return nil, c.note(err)
	}
	st := &stmt{Stmt: inner, busy: true}
	if _, taken := cache[query]; !taken && len(cache) < maxCached {
		st.cached = true
		cache[query] = st
	}
	return st, nil
}

// give returns a statement after use.
func (c *conn) give(st *stmt) {
	st.busy = false
	if !st.cached {
		_ = st.Close() // the statement's own error was reported when it ran
	}
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
			_ = st.Close() // closing the connection frees what this could not
		}
	}
	return c.rawConn.Close()
}

// rows returns its statement to the connection when it is closed, and reports
// errors that only show while stepping.
type rows struct {
	driver.Rows
	c  *conn
	st *stmt
}

// Next steps to the next row.
func (r *rows) Next(dest []driver.Value) error {
	err := r.Rows.Next(dest)
	if err != nil {
		return r.c.note(err)
	}
	return nil
}

// Close ends the query.
func (r *rows) Close() error {
	if r.st == nil {
		return nil
	}
	err := r.Rows.Close()
	r.c.give(r.st)
	r.st = nil
	if err != nil {
		return r.c.note(err)
	}
	return nil
}
