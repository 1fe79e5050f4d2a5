package store

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// What a savepoint outside a transaction would do: commit alone. The commit
// hook stops it even if every check before it were wrong.
func TestNothingCommitsThatTheStoreDidNotCommit(t *testing.T) {
	s := tempStore(t)
	require.NoError(t, s.Close())
	for name, statements := range map[string][]string{
		"savepoint": {`SAVEPOINT x`, `INSERT INTO items (k) VALUES ('a')`, `RELEASE x`},
		"bare":      {`INSERT INTO items (k) VALUES ('a')`},
		"by hand":   {`BEGIN`, `INSERT INTO items (k) VALUES ('a')`, `COMMIT`},
	} {
		t.Run(name, func(t *testing.T) {
			alone, err := openSession(t.Context(), s.path, writing)
			require.NoError(t, err)
			for i, q := range statements {
				err := alone.control(q)
				if i == len(statements)-1 {
					require.ErrorContains(t, err, "531") // SQLITE_CONSTRAINT_COMMITHOOK
				} else {
					require.NoError(t, err)
				}
			}
			require.NoError(t, alone.close())
			require.Empty(t, keys(t, open(t, s.path, Options{})))
		})
	}
}

// A connection that is inside a transaction nobody knows of must not stop the
// writer for good.
func TestALeftOverTransactionIsGotRidOf(t *testing.T) {
	s := tempStore(t)
	require.NoError(t, s.Update(t.Context(), func(tx *Tx) error {
		s.OnCommit(sync.OnceFunc(func() { require.NoError(t, tx.s.control(`BEGIN`)) }))
		return put("a")(tx)
	}))
	require.ErrorIs(t, s.Update(t.Context(), put("b")), ErrUnavailable)
	require.NoError(t, s.Update(t.Context(), put("c")))
	require.Equal(t, map[string]bool{"a": true, "c": true}, keys(t, s))
}

func TestHooksRunOncePerGroupAroundTheCommit(t *testing.T) {
	s := tempStore(t)
	var groups, commits int
	s.OnGroup(func(tx *Tx) error { groups++; return put(fmt.Sprint("group ", groups))(tx) })
	s.OnCommit(func() { commits++ })
	s.OnCommit(func() { panic("must not reach the caller") })
	require.NoError(t, s.Update(t.Context(), put("a")))
	require.Error(t, s.Update(t.Context(), func(*Tx) error { return errMine }))
	require.NoError(t, s.Update(t.Context(), put("b")))
	require.Equal(t, 2, groups)
	require.Equal(t, 2, commits)
	require.True(t, keys(t, s)["group 2"])
}

func TestAnotherWriterIsNoticed(t *testing.T) {
	s := tempStore(t)
	require.NoError(t, s.Update(t.Context(), put("a")))
	other := open(t, s.path, Options{})
	require.NoError(t, other.Update(t.Context(), put("b")))
	err := s.Update(t.Context(), put("c"))
	require.ErrorIs(t, err, ErrUnavailable)
	require.ErrorContains(t, err, "another program")
	require.Equal(t, map[string]bool{"a": true, "b": true}, keys(t, s))
}

func TestThousandCallers(t *testing.T) {
	s := tempStore(t)
	const callers, each = 1000, 5
	var good atomic.Int64
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			for j := range each {
				err := s.Update(context.Background(), func(tx *Tx) error {
					if err := put(fmt.Sprint(i, " ", j))(tx); err != nil || j%2 == 0 {
						return err
					}
					return errMine
				})
				if err == nil {
					good.Add(1)
				}
			}
		})
	}
	wg.Wait()
	require.Equal(t, int64(callers*3), good.Load())
	require.Len(t, keys(t, s), callers*3)
}

// Each of the two signs that a transaction is lost counts alone, and a
// function that swallows the error changes nothing about it.
func TestSignsOfALostTransaction(t *testing.T) {
	const full = `INSERT INTO auto (v) SELECT k FROM items`
	for name, statement := range map[string]string{
		// The rowids of the table are used up: SQLITE_FULL for a statement that
		// SQLite undoes by itself, so that the transaction goes on.
		"machine failure": full,
		// A constraint failure is no machine failure, but here it ends the transaction.
		"rolled back": `INSERT OR ROLLBACK INTO items (k) VALUES ('a')`,
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, filepath.Join(t.TempDir(), "gated.db"), Options{Migrations: append(grown(1), Migration{2, "auto",
				`CREATE TABLE auto (id INTEGER PRIMARY KEY AUTOINCREMENT, v TEXT UNIQUE) STRICT;
				 INSERT INTO auto (id) VALUES (9223372036854775807)`})})
			require.NoError(t, s.Update(t.Context(), put("a")))
			err := s.Update(t.Context(), func(tx *Tx) error {
				_ = tx.s.internal(func() error { _, err := tx.Exec(statement); return err })
				require.Equal(t, statement == full, tx.s.conn.failed != nil)
				require.Equal(t, statement != full, tx.s.conn.rolledBack)
				require.ErrorIs(t, put("b")(tx), ErrUnavailable)
				require.ErrorIs(t, tx.Savepoint(func() error { return nil }), ErrUnavailable)
				require.ErrorIs(t, tx.QueryRow(`SELECT 1`).Scan(new(int)), ErrUnavailable)
				return nil
			})
			require.ErrorIs(t, err, ErrUnavailable)
			require.NoError(t, s.Update(t.Context(), put("c")))
			require.Equal(t, map[string]bool{"a": true, "c": true}, keys(t, s))
		})
	}
}
