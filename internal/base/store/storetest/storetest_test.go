package storetest

import (
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/store"
)

var schema = []store.Migration{{Version: 1, Name: "a", SQL: `CREATE TABLE a(id INTEGER PRIMARY KEY, n INTEGER NOT NULL CHECK (n > 0)) STRICT`}}

// TestWhatIsFoundAfterATest breaks a database in one way, said and unsaid.
func TestWhatIsFoundAfterATest(t *testing.T) {
	negative := func(tx *store.Tx, objects []store.Object) (out []Problem, err error) {
		require.NotEmpty(t, objects)
		var n int
		if err := tx.QueryRow(`SELECT count(*) FROM a WHERE n = 7`).Scan(&n); err != nil || n == 0 {
			return nil, err
		}
		return []Problem{{"sevens", "there is one"}}, nil
	}
	for _, c := range []struct {
		name, sql string
		breaks    []string
		removed   bool
		want      string // rules
	}{
		{name: "sound", sql: `INSERT INTO a VALUES(1, 1)`},
		{name: "what look finds", sql: `INSERT INTO a VALUES(1, 7)`, want: "sevens"},
		{name: "the same on purpose", sql: `INSERT INTO a VALUES(1, 7)`, breaks: []string{"sevens"}},
		{name: "on purpose, and it is not", sql: `INSERT INTO a VALUES(1, 1)`, breaks: []string{"sevens"}, want: "sevens"},
		{name: "on purpose, and more", sql: `INSERT INTO a VALUES(1, 7); CREATE TRIGGER x AFTER INSERT ON a BEGIN DELETE FROM a; END`, breaks: []string{"sevens"}, want: "schema"},
		{name: "an index", sql: `CREATE INDEX i ON a(n)`, want: "schema"},
		{name: "a constraint", sql: `PRAGMA ignore_check_constraints = 1; INSERT INTO a VALUES(1, -1)`, want: "database"},
		{name: "removed", sql: "", want: "database"},
		{name: "removed on purpose", sql: "", removed: true},
		{name: "to be removed, and is not", sql: `INSERT INTO a VALUES(1, 1)`, removed: true, want: "database"},
	} {
		path := filepath.Join(t.TempDir(), "x.db")
		s, err := store.Open(t.Context(), path, store.Options{Migrations: schema})
		require.NoError(t, err)
		require.NoError(t, s.Close())
		if c.sql == "" {
			require.NoError(t, os.Remove(path))
		} else {
			db, err := sql.Open("sqlite", "file:"+path)
			require.NoError(t, err)
			db.SetMaxOpenConns(1)
			_, err = db.Exec(c.sql)
			require.NoError(t, err, c.name)
			require.NoError(t, db.Close())
		}
		w := watched{path: path, migrations: schema, look: negative, breaks: c.breaks, removed: c.removed}
		var rules []string
		for _, p := range w.check() {
			rules = append(rules, p.Rule)
			require.NotEmpty(t, p.Says)
		}
		require.Equal(t, c.want, strings.Join(rules, " "), c.name)
	}
}

// TestOnceForEachDatabase: opened again, also by a subtest, it is still checked
// when the first test has ended.
func TestOnceForEachDatabase(t *testing.T) {
	path, looks := filepath.Join(t.TempDir(), "x.db"), 0
	look := func(*store.Tx, []store.Object) ([]Problem, error) { looks++; return []Problem{{"always", "x"}}, nil }
	t.Run("world", func(t *testing.T) {
		s := Open(t, path, store.Options{Migrations: schema}, look)
		require.NoError(t, s.Close())
		t.Run("again", func(t *testing.T) { Open(t, path, store.Options{Migrations: schema}, nil) })
		require.Zero(t, looks)
		Breaks(t, path, "always")
	})
	require.Equal(t, 1, looks)
	require.Empty(t, databases.of)
}
