package retention_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/host/fsck"
	"gated/internal/host/fsck/fscktest"
	"gated/internal/log/archive"
	"gated/internal/log/audit"
	"gated/internal/test/must"
)

// check runs fsck with the segments of a directory; nil for none.
func (w *world) check(dir *archive.Dir) (r fsck.Report) {
	w.t.Helper()
	w.view(func(tx *store.Tx) (err error) {
		r, err = fsck.Checker{Archive: dir, Migrations: w.migrations}.Run(tx)
		return err
	})
	return r
}

func (w *world) quick() (r fsck.Report) {
	w.t.Helper()
	w.view(func(tx *store.Tx) (err error) {
		r, err = fsck.Checker{}.Quick(tx, fsck.QuickBounds)
		return err
	})
	return r
}

func codes(r fsck.Report) (out []string) {
	for _, p := range r.Problems {
		out = append(out, string(p.Code))
	}
	return out
}

// archivedWorld has a history of which a part is archived: guests that were made, destroyed with a signature and brought back.
func archivedWorld(t *testing.T) *world {
	w := newWorld(t)
	w.do("guest.create", "web")
	destroy := w.submit(ask("guest.destroy", "web"))
	w.approve(destroy.Steps[0].ID)
	w.do("guest.undelete", "web")
	w.busy(110)
	w.pass(25 * time.Hour)
	w.archive()
	require.Positive(t, w.bound())
	return w
}

// TestAWholeArchiveIsSound: and without the files nothing says that it is.
func TestAWholeArchiveIsSound(t *testing.T) {
	w := archivedWorld(t)
	r := w.check(w.older())
	require.True(t, r.Sound, r.Problems)
	require.Positive(t, r.Checked["segments"])
	require.Positive(t, r.Checked["archived jobs"])
	require.Equal(t, w.head().Size, r.Checked["audit entries"], "those of segments, too")
	require.True(t, w.quick().Sound, w.quick().Problems)
	r = w.check(nil)
	require.False(t, r.Sound)
	require.Equal(t, []string{"segment-missing"}, codes(r))
	require.Contains(t, r.Problems[0].Detail, "segment-00000001-")
}

// TestSegmentFilesThatAreNotTheirs: missing, cut, changed, and of another gate.
func TestSegmentFilesThatAreNotTheirs(t *testing.T) {
	other := archivedWorld(t)
	foreign := must.Get(os.ReadFile(filepath.Join(other.dir.Path(), other.files()[0])))(t)
	for name, c := range map[string]struct {
		change func(path string, b []byte) error
		code   refusal.Code
		says   string
	}{
		"missing":         {func(path string, _ []byte) error { return os.Remove(path) }, refusal.Unavailable, "segment-missing"},
		"cut":             {func(path string, b []byte) error { return os.WriteFile(path, b[:len(b)-1], 0o600) }, refusal.Conflict, "segment-damaged"},
		"changed":         {func(path string, b []byte) error { b[len(b)/2] ^= 1; return os.WriteFile(path, b, 0o600) }, refusal.Conflict, "segment-damaged"},
		"of another gate": {func(path string, _ []byte) error { return os.WriteFile(path, foreign, 0o600) }, refusal.Conflict, "segment-damaged"},
		"unreadable": {func(path string, _ []byte) error {
			if err := os.Remove(path); err != nil {
				return err
			}
			return os.Mkdir(path, 0o700)
		}, refusal.Unavailable, "segment-missing"},
	} {
		t.Run(name, func(t *testing.T) {
			w := archivedWorld(t)
			fscktest.Breaks(t, w.store, fsck.AuditLog)
			path := filepath.Join(w.dir.Path(), w.files()[0])
			require.NoError(t, c.change(path, bytes.Clone(must.Get(os.ReadFile(path))(t))))
			r := w.check(w.older())
			require.False(t, r.Sound)
			require.Equal(t, []string{c.says}, codes(r))
			require.Contains(t, r.Problems[0].Detail, filepath.Base(path))
			w.view(func(tx *store.Tx) error {
				_, err := audit.Checker{Older: w.older()}.Verify(tx)
				require.ErrorIs(t, err, c.code)
				require.ErrorContains(t, err, filepath.Base(path))
				_, _, err = audit.Proofs{Older: w.older()}.Inclusion(tx, 5, w.head().Size)
				require.ErrorIs(t, err, c.code)
				_, err = audit.Verify(tx, nil)
				require.NoError(t, err, "what the database has is whole")
				return audit.CheckHead(tx)
			})
			w.do("guest.stop", "web")
			w.busy(110)
			w.pass(25 * time.Hour)
			_, err := w.keeper.Step(t.Context())
			require.NoError(t, err, "later segments do not need it")
		})
	}
}

// TestTheDatabaseLiesAboutItsArchive: each change of what the database says of segments is found.
func TestTheDatabaseLiesAboutItsArchive(t *testing.T) {
	w := archivedWorld(t)
	require.True(t, w.check(w.older()).Sound)
	for name, c := range map[string]struct {
		sql   string
		rules []fsck.Rule
	}{
		"a job that is not archived": {`UPDATE archived_jobs SET last = last + 1 WHERE first = (SELECT max(first) FROM archived_jobs)`, []fsck.Rule{fsck.AuditLog, fsck.Decided}},
		"a job that is archived":     {`UPDATE archived_jobs SET last = last - 1 WHERE first = (SELECT max(first) FROM archived_jobs)`, []fsck.Rule{fsck.AuditLog, fsck.Decided}},
		"a job of no segment":        {`INSERT INTO archived_jobs(first, last, segment) VALUES(100000, 100000, 99)`, []fsck.Rule{fsck.Decided}},
		"a job of two segments":      {`INSERT INTO archived_jobs(first, last, segment) SELECT first + 1, last, segment FROM archived_jobs WHERE last > first LIMIT 1`, []fsck.Rule{fsck.AuditLog, fsck.Decided}},
		"a row that stays":           {`UPDATE requesters SET uid = 0, who = 'uid:0' WHERE job = 1`, []fsck.Rule{fsck.Decided}},
		"a step that stays":          {`UPDATE steps SET name = 'other' WHERE job = 1`, []fsck.Rule{fsck.Decided}},
		"a step that stays is gone":  {`DELETE FROM steps WHERE job = 1`, []fsck.Rule{fsck.Decided}},
		"an output comes back":       {`INSERT INTO outputs(job, idx, text) SELECT job, idx, 'x' FROM steps WHERE job = 1`, []fsck.Rule{fsck.Decided}},
		"a kept entry":               {`UPDATE audit_kept SET body = CAST(replace(body, 'keyed', 'keyes') AS BLOB)`, []fsck.Rule{fsck.AuditLog}},
		"the path of a kept entry":   {`UPDATE audit_kept SET path = zeroblob(256)`, []fsck.Rule{fsck.AuditLog}},
		"the number of a kept entry": {`UPDATE audit_kept SET seq = seq + 1`, []fsck.Rule{fsck.AuditLog}},
		"leaf hashes":                {`UPDATE audit_leaves SET hashes = zeroblob(8192) WHERE tile = 0`, []fsck.Rule{fsck.AuditLog}},
		"the hash of a tile":         {`UPDATE audit_tree SET hash = zeroblob(32) WHERE level = 8 AND n = 0`, []fsck.Rule{fsck.AuditLog}},
		"a tile's hash is gone":      {`DELETE FROM audit_tree WHERE level = 8 AND n = 0`, []fsck.Rule{fsck.Database}},
		"the bound":                  {`UPDATE audit_bound SET seq = seq - 256`, []fsck.Rule{fsck.AuditLog}},
		"the bound is no tile's":     {`UPDATE audit_bound SET seq = seq - 1`, []fsck.Rule{fsck.AuditLog}},
		"the bound's hash":           {`UPDATE audit_bound SET hash = zeroblob(32)`, []fsck.Rule{fsck.AuditLog}},
		"the bound is gone":          {`DELETE FROM audit_bound`, []fsck.Rule{fsck.AuditLog}},
		"a segment's file":           {`UPDATE segments SET sha256 = replace(sha256, substr(sha256, 1, 1), 'x')`, []fsck.Rule{fsck.AuditLog}},
		"a segment's jobs":           {`UPDATE segments SET jobs = jobs + 1`, []fsck.Rule{fsck.AuditLog}},
		"a segment's last entry":     {`UPDATE segments SET last = last + 256`, []fsck.Rule{fsck.AuditLog}},
		"a segment's hash":           {`UPDATE segments SET hash = zeroblob(32)`, []fsck.Rule{fsck.AuditLog}},
		"the segments are gone":      {`DELETE FROM segments`, []fsck.Rule{fsck.AuditLog}},
		"an entry after the bound":   {`DELETE FROM audit WHERE seq = (SELECT min(seq) FROM audit)`, []fsck.Rule{fsck.AuditLog}},
		"a tile more than the bound": {`DELETE FROM audit WHERE seq < (SELECT min(seq) + 256 FROM audit)`, []fsck.Rule{fsck.AuditLog}},
		"a job that no segment has":  {`DELETE FROM outputs WHERE job = (SELECT max(job) FROM steps)`, []fsck.Rule{fsck.Outputs}},
		"a job that should be there": {`UPDATE steps SET state = 'failed' WHERE job = (SELECT max(job) FROM steps)`, []fsck.Rule{fsck.Decided}},
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, w.undone(c.sql, func(tx *store.Tx, _ int64) {
				r := must.Get(fsck.Checker{Archive: w.older(), Migrations: w.migrations}.Run(tx))(t)
				require.False(t, r.Sound)
				require.Subset(t, rules(r), c.rules)
			}))
		})
	}
}

// undone makes a change of so many rows, calls fn, and takes the change back.
func (w *world) undone(sql string, fn func(tx *store.Tx, rows int64)) error {
	w.t.Helper()
	undone := errors.New("undone")
	err := w.store.Update(w.t.Context(), func(tx *store.Tx) error {
		rows, err := tx.Exec(sql)
		if err != nil {
			return err
		}
		fn(tx, rows)
		return undone
	})
	if errors.Is(err, undone) {
		return nil
	}
	return err
}

func rules(r fsck.Report) (out []fsck.Rule) {
	for _, p := range r.Problems {
		out = append(out, p.Rule)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// breaks says that the test breaks all that a report has, among which are these rules.
func (w *world) breaks(r fsck.Report, want ...fsck.Rule) {
	w.t.Helper()
	require.Subset(w.t, rules(r), want)
	fscktest.Breaks(w.t.(*testing.T), w.store, rules(r)...)
}

// TestQuickTakesNoMissingJobAsArchived: only a job that a segment has may be missing.
func TestQuickTakesNoMissingJobAsArchived(t *testing.T) {
	w := archivedWorld(t)
	require.True(t, w.quick().Sound)
	var job int64
	w.view(func(tx *store.Tx) error {
		return tx.QueryRow(`SELECT min(id) FROM jobs WHERE id > (SELECT max(last) FROM archived_jobs)`).Scan(&job)
	})
	w.update(func(tx *store.Tx) error {
		for _, table := range []string{"outputs", "steps", "requesters"} {
			if _, err := tx.Exec(`DELETE FROM `+table+` WHERE job = ?`, job); err != nil {
				return err
			}
		}
		_, err := tx.Exec(`DELETE FROM jobs WHERE id = ?`, job)
		return err
	})
	r := w.quick()
	require.False(t, r.Sound)
	require.Contains(t, strings.Join(codes(r), " "), "step-lost")
	w.breaks(w.check(w.older()), fsck.Decided)
}

// TestWhatChangedIsNotDeleted: a row that is not the one in the file stays, and archiving says so.
func TestWhatChangedIsNotDeleted(t *testing.T) {
	for _, table := range []string{"outputs SET text = 'other' WHERE job = 3", "steps SET detail = 'other' WHERE job = 3", "jobs SET reason = 'other' WHERE id = 3"} {
		w := newWorld(t)
		w.busy(110)
		w.pass(25 * time.Hour)
		fscktest.Breaks(t, w.store, fsck.Decided)
		did, err := w.keeper.Step(t.Context())
		require.NoError(t, err)
		require.True(t, did, "the segment is written and recorded")
		before := w.count("jobs")
		w.update(func(tx *store.Tx) error { _, err := tx.Exec(`UPDATE ` + table); return err })
		_, err = w.keeper.Step(t.Context())
		require.ErrorContains(t, err, "are not those in segment-")
		require.Contains(t, w.keeper.State().Held, "are not those in segment-")
		require.Equal(t, before, w.count("jobs"))
	}
}

// TestEntriesThatChangedAreNotDeleted is the same of entries.
func TestEntriesThatChangedAreNotDeleted(t *testing.T) {
	w := newWorld(t)
	w.busy(110)
	w.pass(25 * time.Hour)
	must.Get(w.keeper.Step(t.Context()))(t)
	w.update(func(tx *store.Tx) error {
		_, err := tx.Exec(`UPDATE audit SET body = CAST(replace(body, 'planned', 'plaNned') AS BLOB) WHERE seq = (SELECT max(seq) FROM audit WHERE seq < 20 AND instr(body, CAST('planned' AS BLOB)) > 0)`)
		return err
	})
	var err error
	for range 1000 {
		if _, err = w.keeper.Step(t.Context()); err != nil {
			break
		}
	}
	require.ErrorContains(t, err, "is another one than segment 1 has")
	require.Zero(t, w.bound())
	w.breaks(w.check(w.older()), fsck.AuditLog)
}
