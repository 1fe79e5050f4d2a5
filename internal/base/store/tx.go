package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
	open  []*Rows // begun, and perhaps still open

	memory *groupMemory // nil in a View
	fails  func() error // Options.Fails
}

// refusal returns why no statement may begin: the function has returned, or its caller's context has ended. A statement
// that has begun is never cancelled.
func (tx *Tx) refusal() error {
	if tx.done {
		return errTxDone
	}
	if err := context.Cause(tx.ctx); err != nil {
		return unavailable(err)
	}
	if tx.fails != nil {
		if err := tx.fails(); err != nil {
			return tx.s.broken(err)
		}
	}
	return nil
}

func (tx *Tx) exec(query string, args []any) error {
	if !tx.write {
		return fmt.Errorf("store: %w: a view does not write", ErrReadOnly)
	}
	if err := tx.refusal(); err != nil {
		return err
	}
	return tx.s.conn.exec(query, args)
}

// Exec runs a statement and returns how many rows it inserted, changed or
// deleted.
func (tx *Tx) Exec(query string, args ...any) (rowsChanged int64, err error) {
	if err := tx.exec(query, args); err != nil {
		return 0, err
	}
	return tx.s.conn.changes(), nil
}

// Insert runs an INSERT and returns the rowid it gave.
func (tx *Tx) Insert(query string, args ...any) (rowID int64, err error) {
	if err := tx.exec(query, args); err != nil {
		return 0, err
	}
	return tx.s.conn.lastRowID(), nil
}

// Query runs a query. Statements may run while its rows are open.
func (tx *Tx) Query(query string, args ...any) (*Rows, error) {
	rows := &Rows{}
	tx.query(query, args, rows)
	if rows.err != nil {
		return nil, rows.err
	}
	return rows, nil
}

// QueryRow runs a query for its first row; errors show in Scan.
func (tx *Tx) QueryRow(query string, args ...any) *Row {
	row := &Row{}
	tx.query(query, args, &row.rows)
	return row
}

func (tx *Tx) query(query string, args []any, rows *Rows) {
	if rows.err = tx.refusal(); rows.err != nil {
		return
	}
	tx.s.conn.query(query, args, rows)
	if rows.st == nil {
		return
	}
	if len(tx.open) == cap(tx.open) { // a function with many queries keeps only the open ones
		tx.open = slices.DeleteFunc(tx.open, func(r *Rows) bool { return r.st == nil })
	}
	tx.open = append(tx.open, rows)
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
	var room [4]any
	marks := tx.memory.mark(room[:0])
	err := fn()
	if err != nil {
		tx.memory.back(marks)
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
	for _, rows := range tx.open {
		_ = rows.Close() // the connection has seen an error of the machine
	}
	tx.open, tx.memory = nil, nil
	tx.done = true
}
