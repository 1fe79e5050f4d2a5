package store

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestRowsThatSQLiteCopiesRaw: rows from before an ALTER have no value for its column, and their copies have its default.
func TestRowsThatSQLiteCopiesRaw(t *testing.T) {
	list := []Migration{{Version: 1, Name: "old", SQL: `
CREATE TABLE a(id INTEGER PRIMARY KEY, v);
CREATE TABLE b(id INTEGER PRIMARY KEY, v);
INSERT INTO b VALUES (1, 'x'), (2, 'y');`}, {Version: 2, Name: "late", SQL: `
ALTER TABLE a ADD COLUMN late TEXT DEFAULT 'default';
ALTER TABLE b ADD COLUMN late TEXT DEFAULT 'default';
ALTER TABLE a ADD COLUMN more TEXT NOT NULL DEFAULT 'more';
ALTER TABLE b ADD COLUMN more TEXT NOT NULL DEFAULT 'more';`}}
	k := &shelf{}
	s, err := Open(t.Context(), filepath.Join(t.TempDir(), "a.db"), Options{Migrations: list, Keeper: k})
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	require.NoError(t, s.Update(t.Context(), does(`INSERT INTO a SELECT * FROM b`)))
	again, err := Open(t.Context(), filepath.Join(t.TempDir(), "b.db"), Options{Migrations: list, Keeper: &shelf{groups: k.groups}})
	require.NoError(t, err)
	t.Cleanup(func() { _ = again.Close() })
	require.Equal(t, rowsOf(t, s), rowsOf(t, again))
	require.NoError(t, s.Update(t.Context(), func(tx *Tx) error {
		n, err := tx.Exec(`UPDATE a SET v = 'z'`)
		require.EqualValues(t, 2, n)
		return err
	}))
}

// TestAGroupOfRowsThatStayAndRowsThatTravel: a crash before its COMMIT would lose the first.
func TestAGroupOfRowsThatStayAndRowsThatTravel(t *testing.T) {
	k := &shelf{}
	s := openOn(t, filepath.Join(t.TempDir(), "a.db"), k, nil)
	both := func(tx *Tx) error {
		if err := does(`INSERT INTO mine VALUES (9, 'x')`)(tx); err != nil {
			return err
		}
		return does(`INSERT INTO counted(v) VALUES ('both')`)(tx)
	}
	err := s.Update(t.Context(), both)
	require.ErrorIs(t, err, ErrUnavailable)
	require.ErrorContains(t, err, "one call")
	require.Empty(t, k.groups)

	// Calls that each change one kind get groups of their own, and only the faulty call fails.
	answers := oneGroup(t, s, does(`INSERT INTO mine VALUES (1, 'x')`), does(`INSERT INTO counted(v) VALUES ('x')`), both,
		func(tx *Tx) error { // what it changed of this machine is taken back
			require.ErrorIs(t, tx.Savepoint(func() error { return errors.Join(does(`INSERT INTO mine VALUES (8, 'x')`)(tx), errMine) }), errMine)
			return does(`INSERT INTO counted(v) VALUES ('y')`)(tx)
		})
	require.NoError(t, answers[0])
	require.NoError(t, answers[1])
	require.ErrorContains(t, answers[2], "one call")
	require.NoError(t, answers[3])
	require.Equal(t, 2, count(t, s))
	var mine int
	require.NoError(t, s.View(t.Context(), func(tx *Tx) error { return tx.QueryRow(`SELECT sum(id) FROM mine`).Scan(&mine) }))
	require.Equal(t, 1, mine)
	requireReplay(t, s, k)
}

func TestStatementsThatCannotBeKept(t *testing.T) {
	k := &shelf{}
	s := openOn(t, filepath.Join(t.TempDir(), "a.db"), k, nil)
	require.NoError(t, s.Update(t.Context(), does(`INSERT INTO counted(v) VALUES ('x')`)))
	for _, q := range []string{
		`CREATE TABLE late(a)`, `create temp table late(a)`, `DROP TABLE plain`, `ALTER TABLE plain ADD COLUMN c`, `REINDEX`, `ANALYZE`,
		`/* x */ CREATE INDEX late ON plain(a)`,
		`UPDATE sqlite_sequence SET seq = 99`, `DELETE FROM Sqlite_Sequence`, `INSERT INTO "sqlite_sequence" VALUES ('plain', 5)`,
		`WITH x AS (SELECT 1) UPDATE sqlite_sequence SET seq = 99`,
	} {
		require.ErrorContains(t, s.Update(t.Context(), does(q)), "cannot be kept elsewhere", q)
	}
	require.Len(t, k.groups, 1)
	require.NoError(t, s.Update(t.Context(), does(`INSERT INTO counted(v) SELECT seq FROM sqlite_sequence`)))
	requireReplay(t, s, k)
}

func TestTablesThatCannotBeKept(t *testing.T) {
	for sql, words := range map[string]string{
		`CREATE TABLE t(a, b AS (a + 1))`:                                           "t.b is a generated column",
		`CREATE TABLE t(a, b AS (a + 1) STORED)`:                                    "t.b is a generated column",
		`CREATE TABLE t(a, RowId)`:                                                  "t.RowId is a column with the name of the rowid",
		`CREATE TABLE t(oid INTEGER PRIMARY KEY)`:                                   "t.oid is a column with the name of the rowid",
		`CREATE TABLE t(a PRIMARY KEY, "_rowid_" INTEGER NOT NULL)`:                 "t._rowid_ is a column with the name of the rowid",
		`CREATE TABLE t(a); CREATE TRIGGER x AFTER INSERT ON t BEGIN SELECT 1; END`: "x is a trigger",
	} {
		list := []Migration{{Version: 1, Name: "one", SQL: sql}}
		_, err := Open(t.Context(), filepath.Join(t.TempDir(), "a.db"), Options{Migrations: list, Keeper: &shelf{}})
		require.ErrorContains(t, err, words, sql)
	}
}
