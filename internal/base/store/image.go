package store

import (
	"crypto/sha256"
	"errors"
)

// ErrTooLarge is returned if rows are more bytes than the caller takes.
var ErrTooLarge = errors.New("the rows are too large")

// Image returns how far the database is in the groups of a Keeper, and all its rows that travel, at most so many bytes
// (ErrTooLarge). A database without rows gets the same state from them as from the groups up to that place.
func (tx *Tx) Image(local []string, most int) (k Kept, err error) {
	if tx.done {
		return k, errTxDone
	}
	k.Base = true
	if k.Place, err = tx.s.place(); err != nil {
		return k, err
	}
	if err := tx.s.one(noDeadline, `SELECT user_version FROM pragma_user_version`, &k.Schema); err != nil {
		return k, err
	}
	k.Changes, err = tx.s.dump(staying(local), most)
	return k, err
}

// TableSum says what rows a table has: two tables with the same are the same.
type TableSum struct {
	Table string
	Rows  int64
	Sum   [sha256.Size]byte // of the rows, as AppendChange has them, in one order
}

// Sums returns a sum of each table that is not named as local, and how far the database is in the groups of a Keeper. Its
// memory does not grow with the tables.
func (tx *Tx) Sums(local []string) (here Place, sums []TableSum, err error) {
	if tx.done {
		return here, nil, errTxDone
	}
	if here, err = tx.s.place(); err != nil {
		return here, nil, err
	}
	var row []byte
	err = tx.s.eachTable(staying(local), func(table, query string) error {
		h := sha256.New()
		t := TableSum{Table: table}
		err := tx.s.eachRow(table, query, func(c Change) error {
			t.Rows++
			row = AppendChange(row[:0], c)
			_, err := h.Write(row)
			return err
		})
		h.Sum(t.Sum[:0])
		sums = append(sums, t)
		return err
	})
	return here, sums, err
}
