package store

import (
	"database/sql"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSchemaIsWhatMigrationsMake: a database that was migrated is as one in
// memory, however its SQL was laid out, and a change of meaning is one.
func TestSchemaIsWhatMigrationsMake(t *testing.T) {
	list := []Migration{
		{Version: 1, Name: "a", SQL: "CREATE TABLE a(\n\tid INTEGER PRIMARY KEY AUTOINCREMENT, -- the first\n\tn TEXT NOT NULL UNIQUE CHECK (n <> '-- no')\n) STRICT;"},
		{Version: 2, Name: "b", SQL: "ALTER TABLE a ADD COLUMN b TEXT NOT NULL DEFAULT 'x, ( y'; CREATE INDEX a_b ON a(b)"},
	}
	want, err := Schema(t.Context(), list)
	require.NoError(t, err)
	var names []string
	for _, o := range want {
		names = append(names, o.Kind+" "+o.Name)
	}
	require.Equal(t, []string{"index a_b", "index sqlite_autoindex_a_1", "table a", "table sqlite_sequence", "table store_meta"}, names)
	require.Contains(t, want[2].SQL, "'-- no'")
	require.Contains(t, want[2].SQL, "'x, ( y'")
	require.NotContains(t, want[2].SQL, "first")

	path := filepath.Join(t.TempDir(), "x.db")
	list[0].SQL = "CREATE TABLE a ( id INTEGER PRIMARY KEY AUTOINCREMENT,n TEXT NOT NULL UNIQUE CHECK(n <> '-- no') ) /* laid out */ STRICT"
	s, err := Open(t.Context(), path, Options{Migrations: list})
	require.NoError(t, err)
	var have []Object
	require.NoError(t, s.View(t.Context(), func(tx *Tx) (err error) { have, err = tx.Schema(); return err }))
	require.NoError(t, s.Close())
	require.Equal(t, want, have)

	list[0].SQL = strings.Replace(list[0].SQL, " UNIQUE", "", 1)
	other, err := Schema(t.Context(), list)
	require.NoError(t, err)
	require.Len(t, other, len(want)-1)
	require.NotContains(t, other, want[2])
	_, err = Schema(t.Context(), []Migration{{Version: 1, Name: "none", SQL: "CREATE"}})
	require.ErrorContains(t, err, "migration 1 (none)")
}

func TestViolated(t *testing.T) {
	list := []Migration{{Version: 1, Name: "a", SQL: `CREATE TABLE a(n INTEGER CHECK (n IN (1, 2)), s TEXT CHECK(s <> ')'), CHECK ((n = 1) = (s = 'CHECK(x)'))) STRICT`}}
	schema, err := Schema(t.Context(), list)
	require.NoError(t, err)
	require.Equal(t, []string{"n IN(1,2)", "s <> ')'", "(n = 1) =(s = 'CHECK(x)')"}, schema[0].checks())
	for values, want := range map[string][]string{
		`1, 'CHECK(x)'`: nil,
		`3, 'x'`:        {"n IN(1,2)"},
		`2, ')'`:        {"s <> ')'"},
		`1, ')'`:        {"s <> ')'", "(n = 1) =(s = 'CHECK(x)')"},
		`NULL, NULL`:    nil,
	} {
		path := filepath.Join(t.TempDir(), "x.db")
		s, err := Open(t.Context(), path, Options{Migrations: list})
		require.NoError(t, err)
		require.NoError(t, s.Close())
		db, err := sql.Open("sqlite", "file:"+path)
		require.NoError(t, err)
		db.SetMaxOpenConns(1)
		_, err = db.Exec(`PRAGMA ignore_check_constraints = 1; INSERT INTO a VALUES(` + values + `)`)
		require.NoError(t, err)
		require.NoError(t, db.Close())
		s, err = OpenReadOnly(t.Context(), path, Options{Migrations: list})
		require.NoError(t, err)
		require.NoError(t, s.View(t.Context(), func(tx *Tx) error {
			got, err := tx.Violated(schema[0])
			require.Equal(t, want, got, values)
			none, _ := tx.Violated(Object{Kind: "index", Name: "a", SQL: schema[0].SQL})
			require.Empty(t, none)
			return err
		}))
		require.NoError(t, s.Close())
	}
}
