package fsck_test

import (
	"database/sql"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/store"
	"gated/internal/host/fsck"
	"gated/internal/test/must"
)

// quickly is a quick check of a database.
func quickly(t *testing.T, path string, most fsck.Bounds) (r fsck.Report) {
	s := must.Get(store.OpenReadOnly(t.Context(), path, store.Options{Migrations: migrations()}))(t)
	schema := must.Get(schemaOf())(t)
	require.NoError(t, s.View(t.Context(), func(tx *store.Tx) (err error) {
		r, err = fsck.Checker{Schema: schema}.Quick(tx, most)
		return err
	}))
	require.NoError(t, s.Close())
	return r
}

func codesOf(r fsck.Report) (out []fsck.Code) {
	for _, p := range r.Problems {
		out = append(out, p.Code)
	}
	return out
}

// TestQuickFinds: damage in the part that a quick check looks at.
func TestQuickFinds(t *testing.T) {
	t.Parallel()
	path := everything(t)
	r := quickly(t, path, fsck.QuickBounds)
	require.True(t, r.Sound, "%+v", r.Problems)
	for _, what := range []string{"schema", "audit entries", "steps", "open steps"} {
		require.Positive(t, r.Checked[what], what)
	}
	for _, c := range []struct {
		code fsck.Code
		sql  string
	}{
		{"schema-unknown", `CREATE TRIGGER rewrites AFTER INSERT ON signatures BEGIN UPDATE signatures SET principal = 'alice'; END`},
		{"schema-missing", `DROP TABLE nonces`},
		{"head-unreadable", `UPDATE audit_head SET note = 'x'`},
		{"entry-broken", `UPDATE audit_key SET public = replace(public, '+', '-')`},
		{"entry-broken", `UPDATE audit_head SET edge = randomblob(length(edge))`},
		{"entry-broken", `UPDATE audit_head SET seq = seq - 1`},
		{"entry-broken", `UPDATE audit_head SET hash = zeroblob(32)`},
		{"entry-broken", `DELETE FROM audit WHERE seq = (SELECT max(seq) FROM audit)`},
		{"entry-broken", `DELETE FROM audit WHERE seq = (SELECT max(seq) - 3 FROM audit)`},
		{"entry-broken", `UPDATE audit SET body = CAST(body || ' ' AS BLOB) WHERE seq = 1`},
		{"entry-broken", `INSERT INTO audit SELECT seq + 1, body, hash FROM audit ORDER BY seq DESC LIMIT 1`},
		{"step-state", `UPDATE steps SET state = 'failed' WHERE state = 'succeeded'`},
		{"step-state", `UPDATE steps SET state = 'planned' WHERE state = 'succeeded'`},
		{"step-lost", `PRAGMA foreign_keys = OFF; DELETE FROM steps WHERE job = 1`},
		{"step-state", `PRAGMA foreign_keys = OFF; UPDATE steps SET idx = 40 WHERE state = 'pending_signature'`},
		{"request-missing", `DELETE FROM requests WHERE (job, idx) IN (SELECT job, idx FROM steps WHERE state = 'pending_signature')`},
		{"nonce-missing", `DELETE FROM nonces WHERE fate = ''`},
		{"nonce-foreign", `UPDATE nonces SET payload = 'x' WHERE fate = ''`},
		{"nonce-foreign", `UPDATE nonces SET job = 1 WHERE fate = ''`},
		{"nonce-spent-early", `UPDATE nonces SET fate = 'used' WHERE fate = ''`},
	} {
		damaged := byHand(t, path, c.sql)
		r := quickly(t, damaged, fsck.QuickBounds)
		require.Contains(t, codesOf(r), c.code, c.sql)
		require.False(t, r.Sound, c.sql)
		require.False(t, check(t, damaged).Sound, "the whole check finds it too: %s", c.sql)
	}
}

// TestQuickSaysWhatItDoesNotLookAt: damage elsewhere is found by the whole check alone,
// and the report names the part.
func TestQuickSaysWhatItDoesNotLookAt(t *testing.T) {
	t.Parallel()
	path := everything(t)
	few := fsck.Bounds{Entries: 10, Steps: 1}
	r := quickly(t, path, few)
	require.True(t, r.Sound, "%+v", r.Problems)
	require.EqualValues(t, 10, r.Checked["audit entries"])
	require.EqualValues(t, 1, r.Checked["open steps"])
	require.Contains(t, r.NotChecked, "open steps beyond the newest 1")
	require.NotContains(t, quickly(t, path, fsck.QuickBounds).NotChecked, "open steps beyond the newest 1")
	for _, sql := range []string{
		`UPDATE audit SET body = CAST(body || ' ' AS BLOB) WHERE seq = 2`,
		`UPDATE steps SET state = 'failed' WHERE job = 1`,
		`UPDATE outputs SET text = 'nothing of value' WHERE idx = 1`,
		`UPDATE signatures SET armor = 'x'`,
	} {
		damaged := byHand(t, path, sql)
		r := quickly(t, damaged, few)
		require.True(t, r.Sound, "%s: %+v", sql, r.Problems)
		require.Regexp(t, `^audit entries 1 to [0-9]+, and steps that only they tell of$`, r.NotChecked[0])
		require.False(t, check(t, damaged).Sound, sql)
	}
}

// TestQuickOfPages: a disk that returned other bytes for a page of a small table.
func TestQuickOfPages(t *testing.T) {
	t.Parallel()
	path := byHand(t, everything(t), `PRAGMA wal_checkpoint(TRUNCATE)`)
	db := must.Get(sql.Open("sqlite", "file:"+path))(t)
	var page, size int64
	require.NoError(t, db.QueryRow(`SELECT rootpage, (SELECT page_size FROM pragma_page_size) FROM sqlite_schema WHERE name = 'audit_key'`).Scan(&page, &size))
	require.NoError(t, db.Close())
	f := must.Get(os.OpenFile(path, os.O_RDWR, 0))(t)
	must.Get(f.WriteAt(make([]byte, 8), (page-1)*size+8))(t) // the places of the page's first rows
	require.NoError(t, f.Close())
	require.Contains(t, codesOf(quickly(t, path, fsck.QuickBounds)), fsck.Code("page-damaged"))
}
