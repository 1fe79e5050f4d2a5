package store

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

// base makes the rows that the database has already the first group, if the Keeper has none. So a gate that is older
// than its ledger can begin one.
func (w *writer) base() error {
	here, err := w.session.place()
	if err != nil || here.Number > 0 {
		return err
	}
	rows, err := w.session.dump(w.session.conn.capture.local, unbounded)
	if err != nil || len(rows) == 0 {
		return err
	}
	begun := &call{fn: func(tx *Tx) error {
		k := tx.s.conn.capture
		k.changes = append(k.changes, rows...)
		return nil
	}}
	if err := w.group([]*call{begun}); err != nil {
		return fmt.Errorf("begin a ledger: %w", err)
	}
	return begun.err
}

// unbounded is a limit that no rows reach.
const unbounded = math.MaxInt

// dump returns the rows of all tables that travel, as INSERTs: always the same bytes for the same rows. If they are more
// bytes than most, the error is ErrTooLarge.
func (s *session) dump(local map[string]bool, most int) (out []byte, err error) {
	err = s.eachTable(local, func(table, query string) error {
		return s.eachRow(table, query, func(row Change) error {
			if out = AppendChange(out, row); len(out) > most {
				return ErrTooLarge
			}
			return nil
		})
	})
	return out, err
}

// eachTable calls fn for each table that travels, in one order, with the query of its rows.
func (s *session) eachTable(local map[string]bool, fn func(table, query string) error) error {
	rowids, err := s.tables()
	if err != nil {
		return err
	}
	var names []string
	for name := range rowids {
		if !local[name] && !strings.HasPrefix(name, "sqlite_") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		query, err := s.rowsOf(name, rowids[name])
		if err == nil {
			err = fn(name, query)
		}
		if err != nil {
			return fmt.Errorf("read the table %s: %w", name, err)
		}
	}
	if _, some := rowids[sequenceTable]; some {
		return fn(sequenceTable, `SELECT 0, name, seq FROM sqlite_sequence WHERE seq > 0 ORDER BY name`)
	}
	return nil
}

// rowsOf is the query of a table's rows, whose first column is the rowid.
func (s *session) rowsOf(table string, rowid bool) (string, error) {
	columns, err := s.columns(table)
	if err != nil {
		return "", err
	}
	id, order := "rowid", []string{"rowid"}
	if !rowid {
		id, order = "0", nil
	}
	var names []string
	for _, c := range columns {
		names = append(names, quoted(c.name))
		if c.key && !rowid {
			order = append(order, quoted(c.name))
		}
	}
	return "SELECT " + id + ", " + strings.Join(names, ", ") + " FROM " + quoted(table) + " ORDER BY " + strings.Join(order, ", "), nil
}

// eachRow calls fn for each row of a query as eachTable has it, as an INSERT.
func (s *session) eachRow(table, query string, fn func(Change) error) error {
	return s.internal(func() (err error) {
		var rows Rows
		s.conn.query(query, nil, &rows)
		defer func() { err = errors.Join(err, rows.Close()) }()
		for rows.Next() {
			row := RowImage{Values: make([]any, rows.st.cols-1)}
			into := []any{&row.ID}
			for i := range row.Values {
				into = append(into, &row.Values[i])
			}
			if err := rows.Scan(into...); err != nil {
				return err
			}
			if err := fn(Change{Table: table, New: &row}); err != nil {
				return err
			}
		}
		return rows.Err()
	})
}

// Rows returns all rows of the tables that are not named as local, as row changes: two databases with the same are the
// same but for what is local.
func (tx *Tx) Rows(local []string) ([]byte, error) {
	if tx.done {
		return nil, errTxDone
	}
	return tx.s.dump(staying(local), unbounded)
}
