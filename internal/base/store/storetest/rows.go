package storetest

import (
	"fmt"
	"io"

	"gated/internal/base/store"
)

// Rows writes every row of every table but those that without names, each with its table and its values as SQLite quotes them.
func Rows(w io.Writer, tx *store.Tx, without func(table string) bool) error {
	objects, err := tx.Schema()
	if err != nil {
		return err
	}
	for _, o := range objects {
		if o.Kind != "table" || without(o.Name) {
			continue
		}
		if err := rowsOf(w, tx, o.Name); err != nil {
			return err
		}
	}
	return nil
}

func rowsOf(w io.Writer, tx *store.Tx, table string) error {
	var quoted string
	err := tx.QueryRow(`SELECT group_concat('quote("' || name || '")', ' || char(10) || ') FROM pragma_table_info(?)`, table).
		Scan(&quoted)
	if err != nil {
		return err
	}
	rows, err := tx.Query("SELECT " + quoted + " FROM " + table)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var row string
		if err := rows.Scan(&row); err != nil {
			return err
		}
		if _, err := fmt.Fprintf(w, "%s %s\n", table, row); err != nil {
			return err
		}
	}
	return rows.Err()
}
