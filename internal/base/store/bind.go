package store

import (
	"database/sql/driver"
	"fmt"

	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"
)

// tooBig is SQLite's error for a text or blob that is longer than it takes.
var tooBig = &engineError{sqlite3.SQLITE_TOOBIG, fmt.Sprintf("string or blob too big (%d)", sqlite3.SQLITE_TOOBIG)}

// bind gives a statement its arguments: integers, floats, booleans, texts, blobs, NULL, and types that database/sql turns
// into one of these. SQLite reads texts and blobs in the statement's own memory, so they are copied there and stay until
// the next bind. The statement must be reset.
//
// Arguments that stay bound do no harm: each bind replaces all of them, or marks the statement as unfit.
func (e engine) bind(st *stmt, args []any) error {
	if len(args) != st.params {
		return fmt.Errorf("store: %d arguments for %d parameters", len(args), st.params)
	}
	var few [16]any
	values := append(few[:0], args...)
	need := 0
	for i, a := range values {
		v, n, err := plainValue(a)
		if err != nil {
			return fmt.Errorf("store: argument %d: %w", i+1, err)
		}
		values[i] = v
		need += n
	}
	old, err := e.makeRoom(st, need)
	if err != nil {
		return err
	}
	at := st.text
	for i, v := range values {
		n, rc := e.bindOne(st, int32(i+1), v, at)
		if rc != sqlite3.SQLITE_OK {
			err = e.failure(rc)
			st.unfit = true // it may still point into the old memory
			break
		}
		at += uintptr(n)
	}
	if old != 0 {
		libc.Xfree(e.tls, old)
	}
	return err
}

// makeRoom makes sure that the statement has memory for texts of n bytes. If it takes new memory, it returns the old,
// which the caller frees as soon as no parameter points into it.
func (e engine) makeRoom(st *stmt, n int) (old uintptr, err error) {
	if n <= st.room {
		return 0, nil
	}
	room := max(2*n, 256)
	text := libc.Xmalloc(e.tls, uint64(room))
	if text == 0 {
		return 0, errNoMemory
	}
	old, st.text, st.room = st.text, text, room
	return old, nil
}

// plainValue turns an argument into one of the types that bindOne knows. n is how many bytes its text or blob takes.
func plainValue(a any) (v any, n int, err error) {
	switch a.(type) {
	case nil, int64, int, bool, string, []byte, float64:
		v = a
	default:
		if v, err = driver.DefaultParameterConverter.ConvertValue(a); err != nil {
			return nil, 0, err
		}
	}
	switch x := v.(type) {
	case string:
		n = len(x) + 1 // one more, so that an empty one has an address: none would be NULL
	case []byte:
		n = len(x) + 1
	case nil, int64, int, bool, float64:
	default:
		return nil, 0, fmt.Errorf("no value of type %T", a)
	}
	if n > maxText {
		return nil, 0, tooBig
	}
	return v, n, nil
}

// borrowed (SQLITE_STATIC) says that SQLite neither copies nor frees a text.
const borrowed = 0

// maxText is the most bytes of a text or blob: SQLite's own limit, and less than its lengths of 32 bits can say.
const maxText = 1_000_000_000

// bindOne gives a statement one argument. A text or blob goes to the memory at; n is how many bytes of it that took.
func (e engine) bindOne(st *stmt, i int32, v any, at uintptr) (n int, rc int32) {
	switch x := v.(type) {
	case int64:
		return 0, sqlite3.Xsqlite3_bind_int64(e.tls, st.handle, i, x)
	case int:
		return 0, sqlite3.Xsqlite3_bind_int64(e.tls, st.handle, i, int64(x))
	case bool:
		truth := int64(0)
		if x {
			truth = 1
		}
		return 0, sqlite3.Xsqlite3_bind_int64(e.tls, st.handle, i, truth)
	case float64:
		return 0, sqlite3.Xsqlite3_bind_double(e.tls, st.handle, i, x)
	case string:
		copy(foreign(at, len(x)), x)
		return len(x) + 1, sqlite3.Xsqlite3_bind_text(e.tls, st.handle, i, at, int32(len(x)), borrowed)
	case []byte:
		if x == nil {
			return 0, sqlite3.Xsqlite3_bind_null(e.tls, st.handle, i)
		}
		copy(foreign(at, len(x)), x)
		return len(x) + 1, sqlite3.Xsqlite3_bind_blob(e.tls, st.handle, i, at, int32(len(x)), borrowed)
	default:
		return 0, sqlite3.Xsqlite3_bind_null(e.tls, st.handle, i)
	}
}
