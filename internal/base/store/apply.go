package store

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

// ErrDiverged is returned if a group's old rows are not those of this database: it is not the state that the group
// changed.
var ErrDiverged = errors.New("the database is not the one that the group changed")

// Applier writes groups that another process's store captured. It is the one writer of its database meanwhile.
//
// It checks each old row before it writes the new one. Foreign keys are off, because the rows that a cascade deleted are
// changes of their own.
type Applier struct {
	s     *session
	place Place
	local map[string]bool
	into  map[string]*target

	rowids map[string]bool // as session.tables has it; nil before the first change
}

// target is how one table's rows are written.
type target struct {
	columns []column
	keys    []int // the columns of the primary key; none if rows are found by their rowid
	alias   bool  // a column is the rowid

	read, insert, update, remove string
}

// openApplier opens a database whose schema is the one of the groups.
func openApplier(path string, local []string) (*Applier, error) {
	s, err := openSession(noDeadline, path, applying)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	a := &Applier{s: s, local: staying(local), into: map[string]*target{}}
	if a.place, err = s.place(); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return a, nil
}

// applyOnce applies one group, unless the database has it.
func applyOnce(path string, local []string, k Kept) (err error) {
	a, err := openApplier(path, local)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	if a.place == k.Place {
		return nil
	}
	return a.Apply([]Kept{k})
}

// Close closes the database.
func (a *Applier) Close() error { return a.s.close() }

// Apply writes groups in one transaction: all of them or, after an error, none. They must follow on the place.
// ErrDiverged if they changed another state; ErrConstraint if a new row cannot be in this one.
func (a *Applier) Apply(groups []Kept) error {
	if err := a.s.begin(); err != nil {
		return unavailable(fmt.Errorf("begin: %w", err))
	}
	place := a.place
	for _, g := range groups {
		if begins := g.Base && place == (Place{}); !begins && (g.Base || g.Number != place.Number+1 || g.Era < place.Era) {
			return errors.Join(fmt.Errorf("store: group %d of era %d does not follow on group %d of era %d",
				g.Number, g.Era, place.Number, place.Era), a.s.rollback())
		}
		if err := a.group(g); err != nil {
			return errors.Join(fmt.Errorf("apply group %d: %w", g.Number, err), a.s.rollback())
		}
		place = g.Place
	}
	if err := a.s.setPlace(place); err != nil {
		return errors.Join(err, a.s.rollback())
	}
	if err := a.s.commit(); err != nil {
		return unavailable(fmt.Errorf("commit: %w", err))
	}
	a.place = place
	return nil
}

func (a *Applier) group(g Kept) error {
	if g.Number == 1 || g.Base {
		rows, err := a.s.dump(a.local, unbounded)
		if err != nil {
			return err
		}
		if len(rows) > 0 && bytes.Equal(rows, g.Changes) {
			return nil // this database is the one that the ledger begins with
		}
		if len(rows) > 0 {
			return fmt.Errorf("%w: it has rows of its own, and is in no ledger yet", ErrDiverged)
		}
	}
	for c, err := range DecodeChanges(g.Changes) {
		if err != nil {
			return err
		}
		if err := a.change(c); err != nil {
			return fmt.Errorf("a row of %s: %w", c.Table, err)
		}
	}
	return a.s.conn.lost()
}

// change writes one row.
func (a *Applier) change(c Change) error {
	if c.Table == sequenceTable {
		return a.sequence(c)
	}
	to, err := a.target(c.Table)
	if err != nil {
		return err
	}
	for _, row := range []*RowImage{c.Old, c.New} {
		if row != nil && len(row.Values) != len(to.columns) {
			return fmt.Errorf("%w: %d columns, not %d", ErrDiverged, len(to.columns), len(row.Values))
		}
	}
	if c.Old == nil {
		return a.s.control(to.insert, to.args(c.New, nil)...)
	}
	if err := a.s.same(to, c.Old); err != nil {
		return err
	}
	if c.New == nil {
		return a.s.control(to.remove, to.key(c.Old)...)
	}
	return a.s.control(to.update, to.args(c.New, c.Old)...)
}

// same fails unless the database has exactly that row.
func (s *session) same(to *target, old *RowImage) error {
	return s.internal(func() error {
		var row Row
		s.conn.query(to.read, to.key(old), &row.rows)
		have := make([]any, len(to.columns))
		into := make([]any, len(to.columns))
		for i := range have {
			into[i] = &have[i]
		}
		if err := row.Scan(into...); errors.Is(err, sql.ErrNoRows) {
			return fmt.Errorf("%w: the row is not there", ErrDiverged)
		} else if err != nil {
			return err
		}
		for i, v := range have {
			if !sameValue(v, to.columns[i].stored(old.Values[i])) {
				return fmt.Errorf("%w: column %d is another one", ErrDiverged, i)
			}
		}
		return nil
	})
}

func sameValue(a, b any) bool {
	switch a := a.(type) {
	case []byte:
		b, ok := b.([]byte)
		return ok && bytes.Equal(a, b)
	case float64:
		b, ok := b.(float64)
		return ok && math.Float64bits(a) == math.Float64bits(b)
	default:
		_, blob := b.([]byte) // which == cannot compare
		return !blob && a == b
	}
}

// key is the arguments that find a row.
func (t *target) key(row *RowImage) []any {
	if len(t.keys) == 0 {
		return []any{row.ID}
	}
	var args []any
	for _, i := range t.keys {
		args = append(args, row.Values[i])
	}
	return args
}

// args is the arguments that write a row, in the place of old if that is not nil.
func (t *target) args(row, old *RowImage) []any {
	args := slices.Clone(row.Values)
	if len(t.keys) == 0 && !t.alias {
		args = append(args, row.ID)
	}
	if old != nil {
		args = append(args, t.key(old)...)
	}
	return args
}

// target prepares how a table's rows are written. A table that stays on its machine is refused.
func (a *Applier) target(table string) (*target, error) {
	if t := a.into[table]; t != nil {
		return t, nil
	}
	if a.local[table] {
		return nil, fmt.Errorf("%w: its rows belong to one machine", ErrDiverged)
	}
	columns, err := a.s.columns(table)
	if err != nil {
		return nil, err
	}
	t := &target{columns: columns}
	if a.rowids == nil {
		if a.rowids, err = a.s.tables(); err != nil {
			return nil, err
		}
	}
	rowid, known := a.rowids[table]
	if !known || strings.HasPrefix(table, "sqlite_") || len(columns) == 0 {
		return nil, fmt.Errorf("%w: there is no such table", ErrDiverged)
	}
	var names, where []string
	for i, c := range columns {
		names = append(names, quoted(c.name))
		if c.key && !rowid {
			t.keys, where = append(t.keys, i), append(where, quoted(c.name)+" IS ?")
		}
		t.alias = t.alias || c.alias && rowid
	}
	t.read = "SELECT " + strings.Join(names, ", ") + " FROM " + quoted(table)
	if rowid {
		where = []string{"rowid = ?"}
		if !t.alias {
			names = append(names, "rowid")
		}
	}
	all := " WHERE " + strings.Join(where, " AND ")
	t.read += all
	t.insert = "INSERT INTO " + quoted(table) + " (" + strings.Join(names, ", ") + ") VALUES (?" + strings.Repeat(", ?", len(names)-1) + ")"
	t.update = "UPDATE " + quoted(table) + " SET " + strings.Join(names, " = ?, ") + " = ?" + all
	t.remove = "DELETE FROM " + quoted(table) + all
	a.into[table] = t
	return t, nil
}

// quoted is a name as SQL.
func quoted(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

type column struct {
	name  string
	key   bool // part of the primary key
	alias bool // if the table has rowids: the column is the rowid
	real  bool // its numbers are reals
}

// stored is a captured value as a query shows it. SQLite's hook shows some reals as the integers that it saves space with.
func (c column) stored(v any) any {
	if n, ok := v.(int64); ok && c.real {
		return float64(n)
	}
	return v
}

// isRealType reports that a declared type gives a column the affinity REAL (sqlite.org/datatype3.html, section 3.1).
func isRealType(declared string) bool {
	has := func(words ...string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(strings.ToUpper(declared), w) })
	}
	return has("REAL", "FLOA", "DOUB") && !has("INT", "CHAR", "CLOB", "TEXT", "BLOB")
}

// columns returns the columns of a table. A primary key that has an index of its own is no name of the rowid.
func (s *session) columns(table string) (out []column, err error) {
	err = s.internal(func() error {
		var rows Rows
		s.conn.query(`SELECT name, pk > 0, upper(type) = 'INTEGER' AND NOT EXISTS (SELECT 1 FROM pragma_index_list(?1) WHERE origin = 'pk'), type
			FROM pragma_table_info(?1) ORDER BY cid`, []any{table}, &rows)
		defer rows.Close()
		for rows.Next() {
			var c column
			var declared string
			if err := rows.Scan(&c.name, &c.key, &c.alias, &declared); err != nil {
				return err
			}
			c.alias, c.real = c.alias && c.key, isRealType(declared)
			out = append(out, c)
		}
		return rows.Err()
	})
	return out, err
}

// sequenceTable is SQLite's own table of the newest number of each AUTOINCREMENT. An INSERT of the row moves it on, so it
// travels only with the rows with which a ledger begins.
const sequenceTable = "sqlite_sequence"

func (a *Applier) sequence(c Change) error {
	if c.Old != nil || c.New == nil || len(c.New.Values) != 2 {
		return fmt.Errorf("%w: no row of a beginning", ErrDiverged)
	}
	if err := a.s.control(`DELETE FROM sqlite_sequence WHERE name = ?`, c.New.Values[0]); err != nil {
		return err
	}
	return a.s.control(`INSERT INTO sqlite_sequence(name, seq) VALUES(?, ?)`, c.New.Values...)
}
