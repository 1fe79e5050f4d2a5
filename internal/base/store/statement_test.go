package store

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	sqlite3 "modernc.org/sqlite/lib"
)

func TestStatementsThatFunctionsMayNotRun(t *testing.T) {
	s := tempStore(t)
	for _, q := range []string{
		`BEGIN`, ` begin immediate`, `COMMIT`, `END`, `ROLLBACK`, `ROLLBACK TO call_`, `SAVEPOINT call_`, `RELEASE call_`,
		`/* x */ COMMIT`, "-- x\nCOMMIT", `PRAGMA synchronous = OFF`, `ATTACH 'x' AS y`, `DETACH y`, `VACUUM`,
		`INSERT OR ROLLBACK INTO items (k) VALUES ('x')`,
		`INSERT OR FAIL INTO items (k) VALUES ('x')`,
		`INSERT INTO items (k) VALUES ('x') ON CONFLICT ROLLBACK`,
		`UPDATE or/**/rollback items SET k = 'x'`,
		`CREATE TABLE x (a REFERENCES items DEFERRABLE INITIALLY DEFERRED)`,
		`SELECT 1; COMMIT`, `SELECT 1; SELECT 2`, ``, ` ; `, `-- nothing`, `'unclosed; COMMIT`,
	} {
		t.Run(q, func(t *testing.T) {
			require.NoError(t, s.Update(t.Context(), func(tx *Tx) error {
				if err := put(q)(tx); err != nil {
					return err
				}
				if _, err := tx.Exec(q); err == nil {
					return fmt.Errorf("exec was let through")
				}
				if _, err := tx.Query(q); err == nil {
					return fmt.Errorf("query was let through")
				}
				if err := tx.QueryRow(q).Scan(new(int)); err == nil {
					return fmt.Errorf("query for a row was let through")
				}
				return nil
			}))
			require.True(t, keys(t, s)[q], "the refusal costs nothing else")
		})
	}
}

func TestStatementsThatOnlyLookForbidden(t *testing.T) {
	for _, q := range []string{
		`SELECT 'ROLLBACK'`, `SELECT 'it''s; COMMIT'`, `SELECT "rollback" FROM t`, "SELECT `rollback`, [rollback] FROM t",
		`SELECT 1 -- ROLLBACK`, `SELECT /* ; COMMIT */ 1`, `SELECT 1;`, `SELECT rollbacks, begin_at FROM t`,
		`UPDATE t SET release = 1`, `INSERT INTO t (a) VALUES (?) ON CONFLICT DO NOTHING`, `INSERT OR IGNORE INTO t VALUES (1)`,
	} {
		require.NoError(t, vet(q), q)
	}
}

func TestManyDistinctStatementsStillWork(t *testing.T) {
	s := tempStore(t)
	require.NoError(t, s.View(t.Context(), func(tx *Tx) error {
		for i := range maxCached + 10 {
			var n int
			if err := tx.QueryRow(fmt.Sprintf(`SELECT %d`, i)).Scan(&n); err != nil || n != i {
				return fmt.Errorf("got %d: %w", n, err)
			}
		}
		require.Len(t, tx.s.conn.stmts, maxCached)
		return nil
	}))
}

func TestEveryPragmaIsReadBack(t *testing.T) {
	s := tempStore(t)
	require.NoError(t, s.Close())
	for _, a := range []access{readOnly, probe, writing} {
		c, err := openSession(t.Context(), s.path, a)
		require.NoError(t, err)
		for _, p := range pragmas(a) {
			c.conn.mayCommit = true // leaving WAL mode is a commit
			require.NoError(t, c.control(`PRAGMA `+p.name+` = `+map[string]string{
				"busy_timeout": "1", "foreign_keys": "0", "trusted_schema": "1", "query_only": "0",
				"journal_mode": "delete", "synchronous": "1", "journal_size_limit": "1", "temp_store": "1"}[p.name]))
			err := c.readBack(a)
			require.ErrorContains(t, err, p.name)
			require.NoError(t, c.control(`PRAGMA `+p.name+` = `+p.set))
			require.NoError(t, c.readBack(a))
		}
		require.NoError(t, c.close())
	}
}

// TestAStatementIsPlannedOnce: a partial index whose condition a bound value could meet must not have SQLite plan anew on each run.
func TestAStatementIsPlannedOnce(t *testing.T) {
	s := tempStore(t)
	require.NoError(t, s.Update(t.Context(), func(tx *Tx) error {
		for _, q := range []string{`CREATE TABLE planned(kind TEXT, n INTEGER)`, `CREATE INDEX planned_drill ON planned(n) WHERE kind = 'drill'`,
			`INSERT INTO planned VALUES('drill', 1), ('guest', 2)`} {
			if _, err := tx.Exec(q); err != nil {
				return err
			}
		}
		return nil
	}))
	const query = `SELECT count(*) FROM planned WHERE kind = ?`
	require.NoError(t, s.View(t.Context(), func(tx *Tx) error {
		for _, kind := range []string{"drill", "guest", "drill", "guest"} {
			var n int
			if err := tx.QueryRow(query, kind).Scan(&n); err != nil || n != 1 {
				return fmt.Errorf("got %d: %w", n, err)
			}
		}
		st := tx.s.conn.stmts[query]
		require.NotNil(t, st)
		require.Zero(t, sqlite3.Xsqlite3_stmt_status(tx.s.conn.tls, st.handle, sqlite3.SQLITE_STMTSTATUS_REPREPARE, 0))
		return nil
	}))
}
