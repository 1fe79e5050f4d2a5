package store

import (
	"database/sql"
	"errors"
	"fmt"
)

// Rows are the rows of a query. They are valid until the function that began the query returns, and only on its
// goroutine.
type Rows struct {
	c       *conn
	st      *stmt // nil as soon as there are no more rows
	waiting bool  // SQLite stands on a row that Next has not shown yet
	shown   bool  // SQLite stands on a row that Next has shown
	err     error
}

// Next moves to the next row. It returns false after the last row and after an error; Err tells which.
func (r *Rows) Next() bool {
	r.shown = r.waiting || r.step()
	r.waiting = false
	return r.shown
}

// step moves SQLite to the next row. Without one, it ends the query.
func (r *Rows) step() bool {
	if r.st == nil {
		return false
	}
	more, err := r.c.step(r.st)
	if err != nil {
		_ = r.end() // the same error
		r.err = r.c.note(err)
	} else if !more {
		r.err = r.end()
	}
	return more
}

// Err returns the error that ended the rows, if there was one.
func (r *Rows) Err() error { return r.err }

// Close ends the query. It may be called again, and need not be called after the last row.
func (r *Rows) Close() error {
	if r.st == nil {
		return nil
	}
	return r.end()
}

// end gives the statement back. After a failed step, SQLite's reset repeats its error.
func (r *Rows) end() error {
	err := r.c.note(r.c.reset(r.st))
	r.c.give(r.st)
	r.st, r.waiting, r.shown = nil, false, false
	return err
}

// Scan copies the row that Next has shown, as Rows.Scan of database/sql does: into pointers to strings, byte slices,
// numbers, booleans, types with these as their form, pointers to them for NULL, any, and sql.Scanner. What it writes is
// a copy, which stays. Only an sql.RawBytes is overwritten by the next Scan into it.
func (r *Rows) Scan(dest ...any) error {
	if r.err != nil {
		return r.err
	}
	if !r.shown {
		return errors.New("store: Scan without a row")
	}
	if len(dest) != r.st.cols {
		return fmt.Errorf("store: %d destinations for %d columns", len(dest), r.st.cols)
	}
	for i, d := range dest {
		if err := r.c.column(r.st, int32(i), d); err != nil {
			return fmt.Errorf("store: column %d: %w", i, err)
		}
	}
	return nil
}

// Row is the first row of a query.
type Row struct{ rows Rows }

// Scan copies the row and ends the query; see Rows.Scan. Without a row it returns sql.ErrNoRows.
func (r *Row) Scan(dest ...any) error {
	if !r.rows.Next() {
		if r.rows.err != nil {
			return r.rows.err
		}
		return sql.ErrNoRows
	}
	err := r.rows.Scan(dest...)
	if e := r.rows.Close(); err == nil {
		err = e
	}
	return err
}
