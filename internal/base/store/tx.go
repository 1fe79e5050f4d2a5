package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// Tx is a transaction function's access to the database. It is valid until the function returns, and only on its
// goroutine. Queries are constants, which are prepared once per connection. Rows that the function leaves open are
// closed when it returns.
//
// Errors of the machine are ErrUnavailable; a constraint's are ErrConstraint; no row is sql.ErrNoRows.
type Tx struct {
	s     *session
	ctx   context.Context // a View's caller; the background in an Update
	write bool
	done  bool
	rows  []*sql.Rows
	row   []*sql.Row
}

// refusedContext carries a reason to the connection, which returns it. There is no other way to make an *sql.Row with
// an error of the store.
func refusedContext(reason error) context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(reason)
	return ctx
}

// statementContext returns the context for a statement: never one that could be cancelled while it runs.
func (tx *Tx) statementContext() context.Context {
	if tx.done {
		return refusedContext(errTxDone)
	}
	if err := context.Cause(tx.ctx); err != nil {
		return refusedContext(unavailable(err))
	}
	return context.Background()
}

func (tx *Tx) exec(query string, args []any) (sql.Result, error) {
	if !tx.write {
		return nil, fmt.Errorf("store: %w: a view does not write", ErrReadOnly)
	}
	return tx.s.sql.ExecContext(tx.statementContext(), query, args...)
}

// Exec runs a statement and returns how many rows it inserted, changed or
// deleted.
func (tx *Tx) Exec(query string, args ...any) (rowsChanged int64, err error) {
	res, err := tx.exec(query, args)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// Insert runs an INSERT and returns the rowid it gave.
func (tx *Tx) Insert(query string, args ...any) (rowID int64, err error) {
	res, err := tx.exec(query, args)
	if err != nil {
		return 0, err
	}
	return res.LastInsertId()
}

// Query runs a query. Statements may run while its rows are open.
func (tx *Tx) Query(query string, args ...any) (*sql.Rows, error) {
	rows, err := tx.s.sql.QueryContext(tx.statementContext(), query, args...)
	if err != nil {
		return nil, err
	}
	tx.rows = append(tx.rows, rows)
	return rows, nil
}

// QueryRow runs a query for its first row; errors show in Scan.
func (tx *Tx) QueryRow(query string, args ...any) *sql.Row {
	row := tx.s.sql.QueryRowContext(tx.statementContext(), query, args...)
	tx.row = append(tx.row, row)
	return row
}

// Savepoint runs fn so that its writes are kept or dropped together. If fn fails, they are dropped and Savepoint
// returns the error; earlier writes stay.
func (tx *Tx) Savepoint(fn func() error) error {
	if tx.done {
		return errTxDone
	}
	if !tx.write {
		return fmt.Errorf("store: %w: a view does not write", ErrReadOnly)
	}
	if err := tx.s.conn.lost(); err != nil {
		return unavailable(err)
	}
	if err := tx.s.control("SAVEPOINT inner_"); err != nil {
		return tx.s.broken(err)
	}
	err := fn()
	if err != nil {
		if e := tx.s.control("ROLLBACK TO inner_"); e != nil {
			return errors.Join(err, tx.s.broken(e))
		}
	}
	if e := tx.s.control("RELEASE inner_"); e != nil {
		return errors.Join(err, tx.s.broken(e))
	}
	return err
}

// broken records that a savepoint statement failed. The state of the transaction is then unknown, so it must not
// commit.
func (s *session) broken(err error) error {
	if s.conn.failed == nil {
		s.conn.failed = err
	}
	return unavailable(err)
}

// end closes what the function left open and makes the Tx unusable.
func (tx *Tx) end() {
	for _, rows := range tx.rows {
		_ = rows.Close() // the connection has seen an error of the machine
	}
	for _, row := range tx.row {
		_ = row.Scan() // without destinations: this closes a row that was not scanned
	}
	tx.rows, tx.row = nil, nil
	tx.done = true
}
