package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"unsafe"

	"modernc.org/libc"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// capture collects the row changes of the transaction that is under way, encoded. SQLite's preupdate hook names each row
// before it changes. That includes rows that REPLACE deletes, rows of a cascade, and each row of a DELETE of all rows,
// for which SQLite otherwise has a short cut.
//
// The driver's own reading of the values ends a text at its first NUL. So capture asks SQLite itself.
type capture struct {
	engine
	rowids  map[string]bool // the tables, and whether they have rowids
	local   map[string]bool // the tables that stay on this machine
	value   uintptr         // memory of SQLite for the address of a value
	conn    *conn
	changes []byte
	stays   int   // how many rows of local tables callers changed
	err     error // why changes lacks something
}

// captured is how much a capture has: the bytes of the changes, and the rows that stay.
type captured struct{ bytes, stays int }

// startCapture has the connection collect changes. It comes before the first statement that writes is prepared, because
// SQLite decides about the short cut when it prepares one.
func (s *session) startCapture(local []string) error {
	hooks, ok := s.conn.rawConn.(interface {
		RegisterPreUpdateHook(sqlite.PreUpdateHookFn)
	})
	if !ok {
		return errors.New("the sqlite driver has no preupdate hook")
	}
	k := &capture{engine: s.conn.engine, conn: s.conn, local: staying(local)}
	var err error
	if k.rowids, err = s.tables(); err != nil {
		return err
	}
	if k.value = libc.Xmalloc(k.tls, 8); k.value == 0 {
		return errNoMemory
	}
	s.conn.capture = k
	if err := s.noRawCopies(); err != nil {
		return err
	}
	hooks.RegisterPreUpdateHook(k.onChange)
	return nil
}

// noRawCopies has SQLite copy rows value by value. Otherwise INSERT INTO a SELECT * FROM b copies records as they are on
// disk. A record from before an ALTER TABLE ADD COLUMN lacks the column's default, and the hook shows NULL in its place.
//
// SQLite does not copy records if each statement answers how many rows it changed. Nothing reads that answer here.
func (s *session) noRawCopies() error {
	if err := s.control(`PRAGMA count_changes = 1`); err != nil {
		return err
	}
	var on bool
	if err := s.one(noDeadline, `PRAGMA count_changes`, &on); err != nil {
		return fmt.Errorf("read the pragma count_changes back: %w", err)
	}
	if !on {
		return errors.New("SQLite does not take the pragma count_changes")
	}
	return nil
}

// storeTable is the store's own table, which describes this file.
const storeTable = "store_meta"

// staying is the set of tables whose rows stay on this machine: those that are named as local, and the store's own.
func staying(local []string) map[string]bool {
	all := map[string]bool{storeTable: true}
	for _, name := range local {
		all[name] = true
	}
	return all
}

// tables returns the tables of the database, and whether each has rowids. A trigger would run a second time where its
// effects are applied, so a database with one is refused. So is a generated column, which the hook and a query number
// differently, and a column that hides the rowid.
func (s *session) tables() (rowids map[string]bool, err error) {
	rowids = map[string]bool{}
	err = s.internal(func() error {
		var rows Rows
		s.conn.query(`SELECT name, wr, type FROM pragma_table_list WHERE schema = 'main'
			UNION ALL SELECT name, 0, type FROM sqlite_schema WHERE type = 'trigger'
			UNION ALL SELECT t.name || '.' || c.name, 0, iif(c.hidden, 'generated column', 'column with the name of the rowid')
				FROM pragma_table_list AS t, pragma_table_xinfo(t.name) AS c
				WHERE t.schema = 'main' AND t.type = 'table' AND (c.hidden OR lower(c.name) IN ('rowid', 'oid', '_rowid_'))`, nil, &rows)
		defer rows.Close()
		for rows.Next() {
			var name, kind string
			var without bool
			if err := rows.Scan(&name, &without, &kind); err != nil {
				return err
			}
			switch kind {
			case "table":
				rowids[name] = !without
			case "trigger", "virtual", "generated column", "column with the name of the rowid":
				return fmt.Errorf("store: %s is a %s, whose changes cannot be kept elsewhere", name, kind)
			}
		}
		return rows.Err()
	})
	return rowids, err
}

// free returns the memory.
func (k *capture) free() {
	if k != nil && k.value != 0 {
		libc.Xfree(k.tls, k.value)
		k.value = 0
	}
}

// begin forgets the transaction before.
func (k *capture) begin() {
	if k != nil {
		k.changes, k.stays, k.err = k.changes[:0], 0, nil
		if cap(k.changes) > maxKeptChanges {
			k.changes = nil
		}
	}
}

// maxKeptChanges bounds the memory, in bytes, that stays between two groups.
const maxKeptChanges = 4 << 20

// length is where the changes end now. If a statement fails, SQLite undoes all of it, and cut undoes what it changed.
func (k *capture) length() captured {
	if k == nil {
		return captured{}
	}
	return captured{len(k.changes), k.stays}
}

func (k *capture) cut(to captured) {
	if k != nil {
		k.changes, k.stays = k.changes[:to.bytes], to.stays
	}
}

// mark and back make the changes a part of what a group remembers, so that a savepoint takes them back too.
func (k *capture) mark() any { return k.length() }

func (k *capture) back(to any) {
	n, _ := to.(captured) // without a mark, the changes begin again
	k.cut(n)
}

// onChange is SQLite's preupdate hook.
func (k *capture) onChange(d sqlite.SQLitePreUpdateData) {
	if k.local[d.TableName] {
		if !k.conn.internal {
			k.stays++
		}
		return
	}
	if k.err != nil {
		return
	}
	if d.TableName == sequenceTable {
		k.err = errSequence
		return
	}
	rowid, known := k.rowids[d.TableName]
	if !known || d.DatabaseName != "main" {
		k.err = fmt.Errorf("store: a row of the table %s.%s changed, which was not there before", d.DatabaseName, d.TableName)
		return
	}
	var which byte
	if d.Op != sqlite3.SQLITE_INSERT {
		which |= hasOld
	}
	if d.Op != sqlite3.SQLITE_DELETE {
		which |= hasNew
	}
	columns := d.Count()
	b := appendHead(k.changes, which, d.TableName, columns)
	if which&hasOld != 0 {
		b = k.row(b, d.OldRowID, rowid, columns, sqlite3.Xsqlite3_preupdate_old)
	}
	if which&hasNew != 0 {
		b = k.row(b, d.NewRowID, rowid, columns, sqlite3.Xsqlite3_preupdate_new)
	}
	k.changes = b
}

// row appends a row, each value as get finds it.
func (k *capture) row(b []byte, id int64, rowid bool, columns int, get func(*libc.TLS, uintptr, int32, uintptr) int32) []byte {
	if !rowid {
		id = 0 // SQLite gives a number without a meaning
	}
	b = binary.AppendVarint(b, id)
	for i := range columns {
		if rc := get(k.tls, k.db, int32(i), k.value); rc != sqlite3.SQLITE_OK {
			k.err = fmt.Errorf("store: read a row that changes: %w", k.failure(rc))
			return b
		}
		b = k.column(b, *(*uintptr)(unsafe.Pointer(unsafe.SliceData(foreign(k.value, 8)))))
	}
	return b
}

// column appends one value of SQLite.
func (k *capture) column(b []byte, v uintptr) []byte {
	switch kind := sqlite3.Xsqlite3_value_type(k.tls, v); kind {
	case sqlite3.SQLITE_INTEGER:
		return binary.AppendVarint(append(b, isInt), sqlite3.Xsqlite3_value_int64(k.tls, v))
	case sqlite3.SQLITE_FLOAT:
		return binary.BigEndian.AppendUint64(append(b, isReal), math.Float64bits(sqlite3.Xsqlite3_value_double(k.tls, v)))
	case sqlite3.SQLITE_TEXT, sqlite3.SQLITE_BLOB:
		first, at := isBlob, uintptr(0)
		if kind == sqlite3.SQLITE_TEXT {
			first, at = isText, sqlite3.Xsqlite3_value_text(k.tls, v)
		} else {
			at = sqlite3.Xsqlite3_value_blob(k.tls, v)
		}
		n := int(sqlite3.Xsqlite3_value_bytes(k.tls, v))
		if at == 0 && (n > 0 || kind == sqlite3.SQLITE_TEXT) {
			k.err = errNoMemory
		}
		if at == 0 {
			n = 0
		}
		b = binary.AppendUvarint(append(b, first), uint64(n))
		if n > 0 {
			b = append(b, foreign(at, n)...)
		}
		return b
	default:
		return append(b, isNull)
	}
}
