package store

import (
	"context"
	"errors"
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// formSchema has the forms of tables that oddSchema lacks.
var formSchema = []Migration{{Version: 1, Name: "forms", SQL: `
CREATE TABLE loose(i INTEGER, r REAL, n NUMERIC, t TEXT, b BLOB, z);
CREATE TABLE loose2(i INTEGER, r REAL, n NUMERIC, t TEXT, b BLOB, z);
CREATE TABLE keyed(v, k TEXT COLLATE NOCASE, j NUMERIC, w REAL, PRIMARY KEY(k, j)) WITHOUT ROWID;
CREATE TABLE keyed2(v, k TEXT COLLATE NOCASE, j NUMERIC, w REAL, PRIMARY KEY(k, j)) WITHOUT ROWID;
CREATE TABLE named(name TEXT PRIMARY KEY COLLATE NOCASE, v) ;
CREATE TABLE counted(id INTEGER PRIMARY KEY AUTOINCREMENT, u UNIQUE, v NOT NULL);
CREATE TABLE falling(id INTEGER PRIMARY KEY DESC, f FLOAT);
CREATE TABLE tree(id INTEGER PRIMARY KEY, up INTEGER REFERENCES tree(id) ON DELETE CASCADE ON UPDATE CASCADE, u UNIQUE);
CREATE TABLE leaf(id INTEGER PRIMARY KEY, of INTEGER DEFAULT 1 REFERENCES tree(id) ON DELETE SET DEFAULT ON UPDATE SET NULL) STRICT;
INSERT INTO loose(i) VALUES (1), (2);
INSERT INTO named(name) VALUES ('first');`}, {Version: 2, Name: "more", SQL: `
ALTER TABLE loose ADD COLUMN lt TEXT NOT NULL DEFAULT 'x';
ALTER TABLE loose ADD COLUMN lr REAL DEFAULT 1;
ALTER TABLE loose2 ADD COLUMN lt TEXT NOT NULL DEFAULT 'x';
ALTER TABLE loose2 ADD COLUMN lr REAL DEFAULT 1;
ALTER TABLE named ADD COLUMN lr REAL DEFAULT 2;`}}

func openForms(t require.TestingT, path string, k *shelf) *Store {
	s, err := Open(context.Background(), path, Options{Migrations: formSchema, Keeper: k, Rehearse: true})
	require.NoError(t, err)
	return s
}

var formStatements = []string{
	`INSERT INTO loose(i, r, n, t, b, z) VALUES (?1, ?1, ?1, ?1, ?1, ?1)`,
	`INSERT INTO loose(i, r, n, t, b, z) VALUES (?2, ?2, ?2, ?2, ?1, ?2)`,
	`INSERT INTO loose2 SELECT i, r, n, t, b, z, lt, lr FROM loose`,
	`INSERT INTO loose SELECT i, r, n, t, b, z, lt, lr FROM loose2 LIMIT 3`,
	`UPDATE loose SET r = ?1, lr = ?2 WHERE rowid % 2 = abs(?3) % 2`,
	`UPDATE loose SET z = r`,
	`UPDATE loose SET r = i WHERE typeof(i) = 'integer'`,
	`UPDATE loose SET r = r + 1, n = n * 2, i = i + 1`,
	`UPDATE loose SET rowid = -rowid WHERE rowid = ?3`,
	`DELETE FROM loose2`,
	`DELETE FROM loose WHERE rowid % 3 = abs(?3) % 3`,
	`UPDATE loose SET t = l.b FROM (SELECT rowid AS id, b FROM loose2) AS l WHERE l.id = loose.rowid`,
	`INSERT OR REPLACE INTO keyed(v, k, j, w) VALUES (?1, ?2, ?3, ?3)`,
	`INSERT OR REPLACE INTO keyed(v, k, j, w) VALUES (?1, 'k', ?3 % 3, ?1)`,
	`INSERT INTO keyed(v, k, j, w) VALUES (?1, 'K', ?3 % 3, ?2) ON CONFLICT DO UPDATE SET v = excluded.v, k = upper(k), w = w + 1`,
	`INSERT OR IGNORE INTO keyed2 SELECT v, k, j, w FROM keyed`,
	`INSERT INTO keyed2 SELECT v, k, j, w FROM keyed`,
	`UPDATE OR REPLACE keyed SET j = j + 1`,
	`UPDATE OR IGNORE keyed SET k = 'K', j = ?3 WHERE j < ?3`,
	`DELETE FROM keyed2`,
	`INSERT OR REPLACE INTO named(name, v) VALUES (?1, ?2)`,
	`INSERT INTO named(name, v) VALUES (?3 % 3, ?2) ON CONFLICT(name) DO UPDATE SET v = excluded.v, name = name || 'x'`,
	`UPDATE OR REPLACE named SET name = 'First', lr = ?3 WHERE rowid > abs(?3) % 4`,
	`INSERT OR REPLACE INTO counted(u, v) VALUES (?3 % 3, 'v')`,
	`INSERT INTO counted(u, v) VALUES (?3 % 3, ?1), (?3 % 3 + 1, ?1)`,
	`UPDATE counted SET id = id + 10 WHERE id % 2`,
	`DELETE FROM counted WHERE id % 2 = abs(?3) % 2`,
	`INSERT OR REPLACE INTO tree(id, up, u) VALUES (abs(?3) % 5, abs(?3 / 2) % 5, ?3 % 4)`,
	`INSERT OR REPLACE INTO tree(id, u) VALUES (abs(?3) % 5, ?3 % 4)`,
	`UPDATE OR REPLACE tree SET id = id + 1, u = ?3 % 4 WHERE id = abs(?3) % 5`,
	`UPDATE tree SET id = id + 7`,
	`UPDATE OR REPLACE tree SET u = 1`,
	`DELETE FROM tree WHERE id = abs(?3) % 5`,
	`INSERT OR REPLACE INTO leaf(id, of) VALUES (abs(?3) % 4, (SELECT max(id) FROM tree))`,
	`INSERT OR REPLACE INTO falling VALUES (?3 * 10, ?3), (-?3, ?3 + 0.5)`,
	`UPDATE OR REPLACE falling SET id = id - 10, f = f + 0.5`,
	`DELETE FROM tree`,
}

func formValue() *rapid.Generator[any] {
	return rapid.OneOf(drawValue(), rapid.SampledFrom([]any{math.Copysign(0, -1), math.NaN(), math.Inf(-1), 1e15, 9.007199254740993e15, 9.3e18, -2.0,
		math.MaxFloat64, "1.0", "-0.0", "1e3", "9223372036854775808", " 7 ", "0x10", "K", "k", int64(1) << 53, int64(1)<<53 + 1, make([]byte, 5000), "1\x00"}),
		rapid.Map(rapid.Float64(), func(f float64) any { return f }))
}

// TestRandomStatementsOnEachFormOfTable: each change on each form of a table, by values of each kind, is replayed.
func TestRandomStatementsOnEachFormOfTable(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		dir := t.TempDir()
		k := &shelf{}
		s := openForms(rt, filepath.Join(dir, "a.db"), k)
		for range rapid.IntRange(1, 10).Draw(rt, "calls") {
			query := rapid.SampledFrom(formStatements).Draw(rt, "query")
			a, b, n := formValue().Draw(rt, "a"), formValue().Draw(rt, "b"), rapid.Int64Range(-9, 9).Draw(rt, "n")
			undo := rapid.Bool().Draw(rt, "undo")
			err := s.Update(context.Background(), func(tx *Tx) error {
				if undo {
					_ = tx.Savepoint(func() error {
						_ = formRun(tx, `DELETE FROM tree`, nil, nil, 0)
						_ = formRun(tx, query, a, b, n)
						return errMine
					})
				}
				return formRun(tx, query, a, b, n)
			})
			if err != nil && !errors.Is(err, ErrConstraint) {
				require.NoError(rt, err, query)
			}
		}
		again := openForms(rt, filepath.Join(dir, "again.db"), &shelf{groups: k.groups})
		want, err := decode(formRows(rt, s))
		require.NoError(rt, err)
		have, err := decode(formRows(rt, again))
		require.NoError(rt, err)
		require.Equal(rt, want, have)
		require.NoError(rt, again.Check(context.Background()))
		require.NoError(rt, s.Close())
		require.NoError(rt, again.Close())
	})
}

func formRows(t require.TestingT, s *Store) (out []byte) {
	require.NoError(t, s.View(context.Background(), func(tx *Tx) (err error) {
		out, err = tx.Rows(nil)
		return err
	}))
	return out
}

// formRun runs a statement with as many of the arguments as it takes.
func formRun(tx *Tx, query string, a, b any, n int64) error {
	args := []any{a, b, n}
	for i := 3; i > 0 && !strings.Contains(query, "?"+strconv.Itoa(i)); i-- {
		args = args[:i-1]
	}
	_, err := tx.Exec(query, args...)
	return err
}
