package store

import (
	"database/sql/driver"
	"errors"
	"fmt"
	"math"
	"reflect"
	"unsafe"

	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"
)

// engine is what SQLite's own functions need of the driver's connection: its memory and its handle. The driver makes and
// closes both.
type engine struct {
	tls *libc.TLS
	db  uintptr
}

// engineOf reads the handles of the driver's connection. The driver does not export them, so a new version of it may
// move them. Then no connection opens, with an error that says so.
func engineOf(inner driver.Conn) (engine, error) {
	moved := errors.New("the sqlite driver's connection has another form than the store knows")
	v := reflect.ValueOf(inner)
	if v.Kind() != reflect.Pointer || v.Elem().Kind() != reflect.Struct {
		return engine{}, moved
	}
	db, tls := v.Elem().FieldByName("db"), v.Elem().FieldByName("tls")
	if !db.IsValid() || db.Kind() != reflect.Uintptr || !tls.IsValid() || tls.Type() != reflect.TypeFor[*libc.TLS]() {
		return engine{}, moved
	}
	return engine{tls: (*libc.TLS)(tls.UnsafePointer()), db: uintptr(db.Uint())}, nil
}

// keepPlans has SQLite keep the plan of a prepared statement whatever is bound to it (SQLITE_DBCONFIG_ENABLE_QPSG). Without it, SQLite
// compares each bound value with the condition of a partial index, and for that parses and plans the statement anew on each run.
// The price is that a query uses such an index only if the condition stands in it word for word.
func (e engine) keepPlans() error {
	args := libc.NewVaList(int32(1), uintptr(0))
	defer libc.Xfree(e.tls, args)
	if rc := sqlite3.Xsqlite3_db_config(e.tls, e.db, sqlite3.SQLITE_DBCONFIG_ENABLE_QPSG, args); rc != sqlite3.SQLITE_OK {
		return e.failure(rc)
	}
	return nil
}

// stmt is a prepared statement. SQLite's memory holds it and the texts that are bound to it, so each must be finalized.
type stmt struct {
	handle uintptr
	params int
	cols   int
	text   uintptr          // memory of SQLite for bound texts and blobs
	room   int              // bytes of it
	busy   bool             // it runs, or its rows are open
	unfit  bool             // it must not run again
	kept   map[string]*stmt // where the connection keeps it, under its query; nil if it does not
	query  string
}

// engineError is an error of SQLite.
type engineError struct {
	code int // the extended result code
	text string
}

// Error is SQLite's description, in the words of the driver.
func (e *engineError) Error() string { return e.text }

var errNoMemory = &engineError{sqlite3.SQLITE_NOMEM, fmt.Sprintf("out of memory (%d)", sqlite3.SQLITE_NOMEM)}

// failure describes the error of the last call of SQLite.
func (e engine) failure(rc int32) error {
	text := libc.GoString(sqlite3.Xsqlite3_errstr(e.tls, rc))
	if msg := libc.GoString(sqlite3.Xsqlite3_errmsg(e.tls, e.db)); msg != text {
		text += ": " + msg
	}
	return &engineError{int(rc), fmt.Sprintf("%s (%d)", text, rc)}
}

// prepare compiles one statement, for many uses.
func (e engine) prepare(query string) (*stmt, error) {
	if uint64(len(query)) >= math.MaxInt32 {
		return nil, tooBig
	}
	// One piece of memory: the answer of eight bytes, then the query and its NUL.
	const answer, persistent = 8, 1
	at := libc.Xmalloc(e.tls, uint64(answer+len(query)+1))
	if at == 0 {
		return nil, errNoMemory
	}
	defer libc.Xfree(e.tls, at)
	copy(foreign(at+answer, len(query)), query)
	foreign(at+answer, len(query)+1)[len(query)] = 0
	rc := sqlite3.Xsqlite3_prepare_v3(e.tls, e.db, at+answer, int32(len(query)+1), persistent, at, 0)
	if rc != sqlite3.SQLITE_OK {
		return nil, e.failure(rc)
	}
	handle := *(*uintptr)(unsafe.Pointer(unsafe.SliceData(foreign(at, answer))))
	if handle == 0 {
		return nil, errors.New("store: an empty statement")
	}
	return &stmt{
		handle: handle,
		params: int(sqlite3.Xsqlite3_bind_parameter_count(e.tls, handle)),
		cols:   int(sqlite3.Xsqlite3_column_count(e.tls, handle)),
	}, nil
}

// finalize frees a statement. A second call does nothing.
func (e engine) finalize(st *stmt) {
	if e.gone() {
		return
	}
	if st.handle != 0 {
		sqlite3.Xsqlite3_finalize(e.tls, st.handle) // repeats the error of the last step
		st.handle = 0
	}
	if st.text != 0 {
		libc.Xfree(e.tls, st.text)
		st.text, st.room = 0, 0
	}
}

// step moves to the next row. At the end of the rows, more is false. After an error, more is false too.
func (e engine) step(st *stmt) (more bool, err error) {
	if e.gone() {
		return false, errConnClosed
	}
	switch rc := sqlite3.Xsqlite3_step(e.tls, st.handle); rc {
	case sqlite3.SQLITE_ROW:
		return true, nil
	case sqlite3.SQLITE_DONE:
		return false, nil
	default:
		return false, e.failure(rc)
	}
}

// reset ends a run of a statement. It repeats the error of the last step.
func (e engine) reset(st *stmt) error {
	if e.gone() {
		return errConnClosed
	}
	if rc := sqlite3.Xsqlite3_reset(e.tls, st.handle); rc != sqlite3.SQLITE_OK {
		return e.failure(rc)
	}
	return nil
}

// run runs a statement to its end and drops its rows.
func (e engine) run(st *stmt) error {
	for {
		more, err := e.step(st)
		if err != nil {
			_ = e.reset(st) // the same error
			return err
		}
		if !more {
			return e.reset(st)
		}
	}
}

// gone reports whether the connection is closed. SQLite's functions must not be called then.
func (e engine) gone() bool { return e.tls == nil }

// inTransaction reports whether SQLite is inside a transaction.
func (e engine) inTransaction() bool {
	return !e.gone() && sqlite3.Xsqlite3_get_autocommit(e.tls, e.db) == 0
}

// changes is how many rows the last INSERT, UPDATE or DELETE changed.
func (e engine) changes() int64 { return int64(sqlite3.Xsqlite3_changes(e.tls, e.db)) }

// lastRowID is the rowid of the last row that was inserted.
func (e engine) lastRowID() int64 { return sqlite3.Xsqlite3_last_insert_rowid(e.tls, e.db) }

// foreign returns n bytes of SQLite's memory, which Go's collector does not know. The indirection is for vet, which
// takes a conversion of a uintptr for a mistake; it is one for memory of Go alone.
func foreign(at uintptr, n int) []byte {
	return unsafe.Slice((*byte)(*(*unsafe.Pointer)(unsafe.Pointer(&at))), n)
}
