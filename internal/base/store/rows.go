package store

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"reflect"

	sqlite3 "modernc.org/sqlite/lib"
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

// column copies a column of the row on which a statement stands. The conversions are those of database/sql, so that a
// value which does not fit is an error.
func (e engine) column(st *stmt, i int32, dest any) error {
	kind := sqlite3.Xsqlite3_column_type(e.tls, st.handle, i)
	if done, err := e.columnAsIs(st, i, kind, dest); done {
		return err
	}
	v, err := e.value(st, i, kind)
	if err != nil {
		return err
	}
	return assign(dest, v)
}

// columnAsIs copies what needs no conversion, as nearly every column. It makes no value in between.
func (e engine) columnAsIs(st *stmt, i, kind int32, dest any) (done bool, err error) {
	if kind == sqlite3.SQLITE_INTEGER {
		n := sqlite3.Xsqlite3_column_int64(e.tls, st.handle, i)
		switch d := dest.(type) {
		case *int64:
			*d = n
		case *int:
			*d = int(n)
			return int64(*d) == n, nil
		default:
			return false, nil
		}
		return true, nil
	}
	if kind != sqlite3.SQLITE_TEXT && kind != sqlite3.SQLITE_BLOB {
		return false, nil
	}
	switch d := dest.(type) {
	case *string:
		var b []byte
		b, err = e.borrow(st, i, kind)
		*d = string(b)
	case *[]byte:
		*d, err = e.copyOf(st, i, kind)
	case *sql.RawBytes:
		var b []byte
		b, err = e.borrow(st, i, kind)
		*d = append((*d)[:0], b...)
	default:
		return false, nil
	}
	return true, err
}

// borrow returns the bytes of a text or blob, which SQLite owns. They are valid until the statement moves on.
func (e engine) borrow(st *stmt, i, kind int32) ([]byte, error) {
	var at uintptr
	if kind == sqlite3.SQLITE_TEXT {
		at = sqlite3.Xsqlite3_column_text(e.tls, st.handle, i)
	} else {
		at = sqlite3.Xsqlite3_column_blob(e.tls, st.handle, i)
	}
	if at == 0 {
		if sqlite3.Xsqlite3_errcode(e.tls, e.db)&0xff == sqlite3.SQLITE_NOMEM {
			return nil, errNoMemory
		}
		return nil, nil // an empty blob
	}
	return foreign(at, int(sqlite3.Xsqlite3_column_bytes(e.tls, st.handle, i))), nil
}

// copyOf returns a copy of a text or blob: nil for an empty blob, as the driver does.
func (e engine) copyOf(st *stmt, i, kind int32) ([]byte, error) {
	b, err := e.borrow(st, i, kind)
	if len(b) == 0 && kind == sqlite3.SQLITE_TEXT {
		return []byte{}, err
	}
	return append([]byte(nil), b...), err
}

// value returns a column as one of the driver's types: int64, float64, string, []byte, or nil for NULL.
func (e engine) value(st *stmt, i, kind int32) (any, error) {
	switch kind {
	case sqlite3.SQLITE_INTEGER:
		return sqlite3.Xsqlite3_column_int64(e.tls, st.handle, i), nil
	case sqlite3.SQLITE_FLOAT:
		return sqlite3.Xsqlite3_column_double(e.tls, st.handle, i), nil
	case sqlite3.SQLITE_TEXT:
		b, err := e.borrow(st, i, kind)
		return string(b), err
	case sqlite3.SQLITE_BLOB:
		return e.copyOf(st, i, kind)
	default:
		return nil, nil
	}
}

// assign stores a value in the variable that dest points to. database/sql does the conversions between texts and
// numbers, through its types for NULL.
func assign(dest, v any) error {
	switch d := dest.(type) {
	case *any:
		*d = v
		return nil
	case *bool:
		var b sql.NullBool
		err := b.Scan(v)
		*d = b.Bool
		return orNull(err, b.Valid, d)
	case *string:
		var s sql.NullString
		err := s.Scan(v)
		*d = s.String
		return orNull(err, s.Valid, d)
	case *[]byte:
		return assignBytes(d, v)
	case *sql.RawBytes:
		return assignBytes((*[]byte)(d), v)
	case sql.Scanner:
		return d.Scan(v)
	}
	to := reflect.ValueOf(dest)
	if to.Kind() != reflect.Pointer || to.IsNil() {
		return fmt.Errorf("no destination: %T", dest)
	}
	return assignKind(to.Elem(), v)
}

// orNull adds the error for NULL.
func orNull(err error, valid bool, dest any) error {
	if err == nil && !valid {
		err = fmt.Errorf("NULL does not fit into %T", dest)
	}
	return err
}

func assignBytes(d *[]byte, v any) error {
	switch v := v.(type) {
	case nil:
		*d = nil
		return nil
	case []byte:
		*d = bytes.Clone(v)
		return nil
	}
	var s sql.NullString
	err := s.Scan(v)
	*d = []byte(s.String)
	return err
}

// assignKind stores a value by the form of the destination's type.
func assignKind(to reflect.Value, v any) error {
	dest := to.Addr().Interface()
	switch to.Kind() {
	case reflect.Pointer:
		if v == nil {
			to.SetZero()
			return nil
		}
		to.Set(reflect.New(to.Type().Elem()))
		return assign(to.Interface(), v)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		var n sql.NullInt64
		err := n.Scan(v)
		if err == nil && to.OverflowInt(n.Int64) {
			err = fmt.Errorf("%d does not fit into %T", n.Int64, dest)
		}
		if err == nil && n.Valid {
			to.SetInt(n.Int64)
		}
		return orNull(err, n.Valid, dest)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		var n sql.Null[uint64]
		err := n.Scan(v)
		if err == nil && to.OverflowUint(n.V) {
			err = fmt.Errorf("%d does not fit into %T", n.V, dest)
		}
		if err == nil && n.Valid {
			to.SetUint(n.V)
		}
		return orNull(err, n.Valid, dest)
	case reflect.Float64:
		var f sql.NullFloat64
		err := f.Scan(v)
		if err == nil && f.Valid {
			to.SetFloat(f.Float64)
		}
		return orNull(err, f.Valid, dest)
	}
	return assignText(to, v)
}

// assignText stores a text or a blob in a type with its form.
func assignText(to reflect.Value, v any) error {
	switch v := v.(type) {
	case string:
		if to.Kind() == reflect.String {
			to.SetString(v)
			return nil
		}
	case []byte:
		switch {
		case to.Kind() == reflect.String:
			to.SetString(string(v))
			return nil
		case to.Kind() == reflect.Slice && to.Type().Elem().Kind() == reflect.Uint8:
			to.SetBytes(bytes.Clone(v))
			return nil
		}
	}
	return fmt.Errorf("a value of type %T does not fit into %s", v, to.Type())
}
