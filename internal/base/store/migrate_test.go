package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// grown is a schema of n versions, each adding a column to items.
func grown(n int) []Migration {
	list := append([]Migration(nil), schema...)
	for v := 2; v <= n; v++ {
		list = append(list, Migration{Version: v, Name: fmt.Sprint("column ", v),
			SQL: fmt.Sprintf(`ALTER TABLE items ADD COLUMN c%d TEXT`, v)})
	}
	return list
}

func version(t *testing.T, path string) int {
	t.Helper()
	s, err := openSession(t.Context(), path, probe)
	require.NoError(t, err)
	defer func() { require.NoError(t, s.close()) }()
	var v int
	require.NoError(t, s.one(t.Context(), "PRAGMA user_version", &v))
	return v
}

func TestMigrationThatFailsChangesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "gated.db")
	s := open(t, path, Options{})
	require.NoError(t, s.Update(t.Context(), put("a")))
	require.NoError(t, s.Close())
	for name, sql := range map[string]string{
		"syntax":      `CREATE TABLE more (id INTEGER PRIMARY KEY) STRICT; CREATE NONSENSE`,
		"constraint":  `CREATE TABLE more (id INTEGER PRIMARY KEY) STRICT; INSERT INTO items (k) VALUES ('a')`,
		"foreign key": `CREATE TABLE more (id INTEGER PRIMARY KEY) STRICT; PRAGMA defer_foreign_keys = 1; INSERT INTO parts (item) VALUES (77)`,
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Open(t.Context(), path, Options{Migrations: append(grown(1), Migration{2, name, sql})})
			require.ErrorContains(t, err, "migration 2")
			require.Equal(t, 1, version(t, path))
			s := open(t, path, Options{})
			require.Error(t, s.View(t.Context(), func(tx *Tx) error { return tx.QueryRow(`SELECT id FROM more`).Scan(new(int)) }))
			require.True(t, keys(t, s)["a"])
			require.NoError(t, s.Close())
		})
	}
	require.NoError(t, open(t, path, Options{Migrations: grown(2)}).Close(), "the snapshot of the failed attempt is not in the way")
}

func TestMigrationListsThatAreNoSchema(t *testing.T) {
	for name, list := range map[string][]Migration{
		"from 2":       {{Version: 2, SQL: `SELECT 1`}},
		"from 0":       {{Version: 0, SQL: `SELECT 1`}},
		"a gap":        {{Version: 1, SQL: `SELECT 1`}, {Version: 3, SQL: `SELECT 1`}},
		"twice":        {{Version: 1, SQL: `SELECT 1`}, {Version: 1, SQL: `SELECT 1`}},
		"rollback":     {{Version: 1, SQL: `CREATE TABLE a (b UNIQUE ON CONFLICT ROLLBACK)`}},
		"raise":        {{Version: 1, SQL: `CREATE TRIGGER t AFTER INSERT ON a BEGIN SELECT RAISE(rollback, 'x'); END`}},
		"deferred key": {{Version: 1, SQL: `CREATE TABLE a (b REFERENCES c DEFERRABLE INITIALLY DEFERRED)`}},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "gated.db")
			_, err := Open(t.Context(), path, Options{Migrations: list})
			require.Error(t, err)
			require.NoFileExists(t, path)
		})
	}
}

// H08.
func TestANewerDatabaseIsRefusedUnchanged(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "gated.db")
	s := open(t, path, Options{Migrations: grown(4)})
	require.NoError(t, s.Update(t.Context(), put("a")))
	require.NoError(t, s.Close())
	before, err := os.ReadFile(path)
	require.NoError(t, err)
	for _, openIt := range []func(context.Context, string, Options) (*Store, error){Open, OpenReadOnly} {
		_, err := openIt(t.Context(), path, Options{Migrations: grown(3)})
		var tooNew *TooNewError
		require.ErrorAs(t, err, &tooNew)
		require.Equal(t, TooNewError{Have: 4, Want: 3}, *tooNew)
	}
	after, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, before, after)
	require.NoError(t, open(t, path, Options{Migrations: grown(4)}).Close(), "exactly the version it has")
}

func TestFilesThatAreNoDatabaseOfAGate(t *testing.T) {
	dir := t.TempDir()
	garbage := filepath.Join(dir, "garbage")
	require.NoError(t, os.WriteFile(garbage, make([]byte, 8192), 0o600))

	foreign := filepath.Join(dir, "foreign")
	require.NoError(t, ensureFile(foreign))
	other, err := openSession(t.Context(), foreign, writing)
	require.NoError(t, err)
	require.NoError(t, other.inTransaction(t.Context(), func(run func(string) error) error { return run(`CREATE TABLE t (a)`) }))
	require.NoError(t, other.close())

	damaged := filepath.Join(dir, "damaged")
	require.NoError(t, open(t, damaged, Options{}).Close())
	b, err := os.ReadFile(damaged)
	require.NoError(t, err)
	for i := 100; i < 4096; i++ {
		b[i] = 0xff // the root page of the schema
	}
	require.NoError(t, os.WriteFile(damaged, b, 0o600))

	for _, path := range []string{garbage, foreign, damaged} {
		for _, openIt := range []func(context.Context, string, Options) (*Store, error){Open, OpenReadOnly} {
			before, err := os.ReadFile(path)
			require.NoError(t, err)
			_, err = openIt(t.Context(), path, Options{Migrations: schema})
			require.ErrorIs(t, err, ErrCorrupt, path)
			after, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, before, after)
		}
	}
	_, err = Open(t.Context(), dir, Options{Migrations: schema})
	require.ErrorContains(t, err, "not a regular file")
	link := filepath.Join(dir, "link")
	require.NoError(t, os.Symlink(damaged, link))
	_, err = Open(t.Context(), link, Options{Migrations: schema})
	require.ErrorContains(t, err, "not a regular file")
	_, err = OpenReadOnly(t.Context(), filepath.Join(dir, "none"), Options{Migrations: schema})
	require.Error(t, err)
	require.NoFileExists(t, filepath.Join(dir, "none"))
}

func TestCheckFindsADamagedPage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "gated.db")
	s := open(t, path, Options{})
	for i := range 200 {
		require.NoError(t, s.Update(t.Context(), put(fmt.Sprint(i))))
	}
	require.NoError(t, s.Check(t.Context()))
	require.NoError(t, s.Close())
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	for i := len(b) - 4096; i < len(b); i++ {
		b[i] = 0xff
	}
	require.NoError(t, os.WriteFile(path, b, 0o600))
	bad, err := OpenReadOnly(t.Context(), path, Options{Migrations: schema})
	if err == nil {
		err = errors.Join(bad.Check(t.Context()), bad.Close())
	}
	require.ErrorIs(t, err, ErrCorrupt)
}

func TestReadOnlyBesideAWriter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "gated.db")
	s := open(t, path, Options{})
	require.NoError(t, s.Update(t.Context(), put("a")))
	r, err := OpenReadOnly(t.Context(), path, Options{Migrations: grown(2)})
	require.NoError(t, err)
	require.True(t, keys(t, r)["a"])
	require.NoError(t, s.Update(t.Context(), put("b")))
	require.True(t, keys(t, r)["b"])
	require.ErrorIs(t, r.Update(t.Context(), put("c")), ErrReadOnly)
	require.NoError(t, s.Close())
	require.True(t, keys(t, r)["b"], "the writer's end is not the reader's")
	require.NoError(t, r.Close())
	require.Equal(t, 1, version(t, path), "nothing was migrated")

	alone, err := OpenReadOnly(t.Context(), path, Options{Migrations: schema})
	require.NoError(t, err)
	require.True(t, keys(t, alone)["b"])
	require.NoError(t, alone.Close())
}

func TestSnapshot(t *testing.T) {
	s := tempStore(t)
	require.NoError(t, s.Update(t.Context(), put("a")))
	dir := t.TempDir()
	empty, full := filepath.Join(dir, "empty"), filepath.Join(dir, "full")
	require.NoError(t, os.WriteFile(empty, nil, 0o644))
	require.NoError(t, os.WriteFile(full, []byte("precious"), 0o644))
	require.NoError(t, s.Snapshot(t.Context(), empty))
	info, err := os.Stat(empty)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())
	require.True(t, keys(t, open(t, empty, Options{}))["a"])

	require.ErrorContains(t, s.Snapshot(t.Context(), full), "not an empty file")
	b, err := os.ReadFile(full)
	require.NoError(t, err)
	require.Equal(t, "precious", string(b))
	require.ErrorContains(t, s.Snapshot(t.Context(), s.Path()), "not an empty file")
	require.Error(t, s.Snapshot(t.Context(), filepath.Join(dir, "no", "such")))
}
