package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// schema is the table of most tests.
var schema = []Migration{{Version: 1, Name: "items", SQL: `
	CREATE TABLE items (id INTEGER PRIMARY KEY, k TEXT NOT NULL UNIQUE, v BLOB) STRICT;
	CREATE TABLE parts (id INTEGER PRIMARY KEY, item INTEGER NOT NULL REFERENCES items (id)) STRICT;`}}

const insertItem = `INSERT INTO items (k, v) VALUES (?, ?)`

func open(t *testing.T, path string, o Options) *Store {
	t.Helper()
	if o.Migrations == nil {
		o.Migrations = schema
	}
	s, err := Open(t.Context(), path, o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func tempStore(t *testing.T) *Store {
	return open(t, filepath.Join(t.TempDir(), "gated.db"), Options{})
}

// keys returns every key in the table.
func keys(t *testing.T, s *Store) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	require.NoError(t, s.View(t.Context(), func(tx *Tx) error {
		rows, err := tx.Query(`SELECT k FROM items`)
		if err != nil {
			return err
		}
		for rows.Next() {
			var k string
			if err := rows.Scan(&k); err != nil {
				return err
			}
			out[k] = true
		}
		return rows.Err()
	}))
	return out
}

func TestUpdateIsSeenByViewAndAfterReopen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "gated.db")
	s := open(t, path, Options{})
	var id int64
	require.NoError(t, s.Update(t.Context(), func(tx *Tx) (err error) {
		id, err = tx.Insert(insertItem, "a", []byte{1})
		return err
	}))
	require.Equal(t, int64(1), id)
	require.True(t, keys(t, s)["a"])
	require.NoError(t, s.Close())
	require.True(t, keys(t, open(t, path, Options{}))["a"])
}

func TestAnErrorCostsOnlyItsOwnCall(t *testing.T) {
	s := tempStore(t)
	mine := errors.New("mine")
	err := s.Update(t.Context(), func(tx *Tx) error {
		_, err := tx.Insert(insertItem, "a", nil)
		require.NoError(t, err)
		return mine
	})
	require.Equal(t, mine, err)
	require.NoError(t, s.Update(t.Context(), put("b")))
	require.Equal(t, map[string]bool{"b": true}, keys(t, s))
}

func TestPanicCostsOnlyItsOwnCall(t *testing.T) {
	s := tempStore(t)
	err := s.Update(t.Context(), func(tx *Tx) error {
		_ = put("a")(tx)
		_ = tx.Savepoint(func() error { panic("boom") })
		return nil
	})
	require.ErrorContains(t, err, "boom")
	require.NoError(t, s.Update(t.Context(), put("b")))
	require.Equal(t, map[string]bool{"b": true}, keys(t, s))
}

func TestSavepointDropsOnlyWhatIsInside(t *testing.T) {
	s := tempStore(t)
	inner := errors.New("inner")
	require.NoError(t, s.Update(t.Context(), func(tx *Tx) error {
		if err := put("before")(tx); err != nil {
			return err
		}
		err := tx.Savepoint(func() error {
			if err := put("inside")(tx); err != nil {
				return err
			}
			return inner
		})
		if !errors.Is(err, inner) {
			return fmt.Errorf("got %w", err)
		}
		return tx.Savepoint(func() error { return put("after")(tx) })
	}))
	require.Equal(t, map[string]bool{"before": true, "after": true}, keys(t, s))
}

func TestConstraintErrorIsNamedAndMayBeSwallowed(t *testing.T) {
	s := tempStore(t)
	require.NoError(t, s.Update(t.Context(), put("a")))
	require.ErrorIs(t, s.Update(t.Context(), put("a")), ErrConstraint)
	require.NoError(t, s.Update(t.Context(), func(tx *Tx) error {
		if err := put("a")(tx); !errors.Is(err, ErrConstraint) {
			return fmt.Errorf("got %w", err)
		}
		_, err := tx.Exec(`INSERT INTO parts (item) VALUES (99)`)
		if !errors.Is(err, ErrConstraint) {
			return fmt.Errorf("foreign key: %w", err)
		}
		return put("b")(tx)
	}))
	require.Equal(t, map[string]bool{"a": true, "b": true}, keys(t, s))
}

func TestTxIsOverWhenItsFunctionReturned(t *testing.T) {
	s := tempStore(t)
	var kept *Tx
	require.NoError(t, s.Update(t.Context(), func(tx *Tx) error { kept = tx; return put("a")(tx) }))
	_, err := kept.Exec(`DELETE FROM items`)
	require.ErrorIs(t, err, errTxDone)
	_, err = kept.Query(`SELECT 1`)
	require.ErrorIs(t, err, errTxDone)
	require.ErrorIs(t, kept.QueryRow(`SELECT 1`).Scan(new(int)), errTxDone)
	require.ErrorIs(t, kept.Savepoint(func() error { return nil }), errTxDone)
	require.True(t, keys(t, s)["a"])
}

func TestOpenRowsDoNotDisturbTheSameQuery(t *testing.T) {
	s := tempStore(t)
	for _, k := range []string{"a", "b", "c"} {
		require.NoError(t, s.Update(t.Context(), put(k)))
	}
	seen := 0
	require.NoError(t, s.Update(t.Context(), func(tx *Tx) error {
		const q = `SELECT id FROM items ORDER BY id`
		outer, err := tx.Query(q)
		if err != nil {
			return err
		}
		for outer.Next() {
			inner, err := tx.Query(q) // left open on purpose, as are outer and the row below
			if err != nil {
				return err
			}
			for inner.Next() {
				seen++
			}
			tx.QueryRow(q)
		}
		return outer.Err()
	}))
	require.Equal(t, 9, seen)
	require.NoError(t, s.Update(t.Context(), put("d")))
}

func TestViewIsOneSnapshotAndDoesNotWrite(t *testing.T) {
	s := tempStore(t)
	require.NoError(t, s.Update(t.Context(), put("a")))
	count := func(tx *Tx) (n int) {
		require.NoError(t, tx.QueryRow(`SELECT count(*) FROM items`).Scan(&n))
		return n
	}
	require.NoError(t, s.View(t.Context(), func(tx *Tx) error {
		require.Equal(t, 1, count(tx))
		require.NoError(t, s.Update(t.Context(), put("b")))
		require.Equal(t, 1, count(tx))
		_, err := tx.Exec(`DELETE FROM items`)
		require.ErrorIs(t, err, ErrReadOnly)
		_, err = tx.Insert(insertItem, "x", nil)
		require.ErrorIs(t, err, ErrReadOnly)
		require.ErrorIs(t, tx.Savepoint(func() error { return nil }), ErrReadOnly)
		return nil
	}))
	require.NoError(t, s.View(t.Context(), func(tx *Tx) error { require.Equal(t, 2, count(tx)); return nil }))
	// A write dressed as a query reaches SQLite, which refuses it.
	err := s.View(t.Context(), func(tx *Tx) error {
		return tx.QueryRow(`DELETE FROM items RETURNING id`).Scan(new(int))
	})
	require.ErrorIs(t, err, ErrUnavailable)
	require.Len(t, keys(t, s), 2)
}

func TestViewStopsAtItsCallersEnd(t *testing.T) {
	s := tempStore(t)
	ctx, cancel := context.WithCancel(t.Context())
	err := s.View(ctx, func(tx *Tx) error {
		cancel()
		return tx.QueryRow(`SELECT 1`).Scan(new(int))
	})
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, ErrUnavailable)
	require.ErrorIs(t, s.View(ctx, func(*Tx) error { return nil }), context.Canceled)
}

func TestNoRowIsErrNoRows(t *testing.T) {
	s := tempStore(t)
	require.ErrorIs(t, s.View(t.Context(), func(tx *Tx) error {
		return tx.QueryRow(`SELECT id FROM items WHERE k = ?`, "none").Scan(new(int))
	}), sql.ErrNoRows)
}

// A savepoint of an OnGroup function must not return to one of the last call.
func TestASavepointInAnOnGroupFunction(t *testing.T) {
	s := tempStore(t)
	s.OnGroup(func(tx *Tx) error {
		require.ErrorIs(t, tx.Savepoint(func() error { return errors.Join(put("dropped")(tx), errMine) }), errMine)
		return nil
	})
	require.Equal(t, []error{nil, nil}, oneGroup(t, s, put("a"), func(*Tx) error { return nil }))
	require.Equal(t, map[string]bool{"a": true}, keys(t, s))
}

// A connection to a file that lies in the place of the database for a moment would answer for the database from then on.
func TestNoReaderIsOpenedOnAnotherFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "gated.db")
	list := []Migration{{Version: 1, Name: "rows", SQL: `CREATE TABLE t(v TEXT) STRICT`}}
	s, err := Open(t.Context(), path, Options{Migrations: list})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	other, err := Open(t.Context(), filepath.Join(dir, "other.db"), Options{Migrations: list})
	require.NoError(t, err)
	require.NoError(t, other.Close())
	read := func() error {
		return s.View(t.Context(), func(tx *Tx) error {
			var n int
			return tx.QueryRow(`SELECT count(*) FROM t`).Scan(&n)
		})
	}
	require.NoError(t, s.InPlace())
	require.NoError(t, os.Rename(path, path+".away"))
	require.Error(t, s.InPlace())
	require.ErrorIs(t, read(), ErrUnavailable)
	require.NoError(t, os.Rename(filepath.Join(dir, "other.db"), path))
	require.ErrorContains(t, s.InPlace(), "another file")
	require.ErrorIs(t, read(), ErrUnavailable)
	require.Empty(t, s.idle, "no connection to it is kept")
	require.NoError(t, os.Rename(path+".away", path))
	require.NoError(t, read())
}
