package store

import (
	"errors"
	"fmt"
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
	rows, err := w.session.dump(w.session.conn.capture.local)
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

// dump returns the rows of all tables that travel, as INSERTs: always the same bytes for the same rows.
func (s *session) dump(local map[string]bool) (out []byte, err error) {
	rowids, err := s.tables()
	if err != nil {
		return nil, err
	}
	var names []string
	for name := range rowids {
		if !local[name] && !strings.HasPrefix(name, "sqlite_") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		if out, err = s.dumpTable(out, name, rowids[name]); err != nil {
			return nil, fmt.Errorf("read the table %s: %w", name, err)
		}
	}
	if _, some := rowids[sequenceTable]; some {
		out, err = s.dumpRows(out, sequenceTable, `SELECT 0, name, seq FROM sqlite_sequence WHERE seq > 0 ORDER BY name`)
	}
	return out, err
}

func (s *session) dumpTable(out []byte, table string, rowid bool) ([]byte, error) {
	columns, err := s.columns(table)
	if err != nil {
		return nil, err
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
	return s.dumpRows(out, table, "SELECT "+id+", "+strings.Join(names, ", ")+" FROM "+quoted(table)+" ORDER BY "+strings.Join(order, ", "))
}

// dumpRows appends the rows of a query, whose first column is the rowid.
func (s *session) dumpRows(out []byte, table, query string) (_ []byte, err error) {
	err = s.internal(func() (err error) {
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
			out = AppendChange(out, Change{Table: table, New: &row})
		}
		return rows.Err()
	})
	return out, err
}

// Rows returns all rows of the tables that are not named as local, as row changes: two databases with the same are the
// same but for what is local.
func (tx *Tx) Rows(local []string) ([]byte, error) {
	if tx.done {
		return nil, errTxDone
	}
	return tx.s.dump(staying(local))
}
