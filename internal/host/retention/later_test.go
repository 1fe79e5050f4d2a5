package retention_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/store"
	"gated/internal/gate"
	"gated/internal/host/fsck"
	"gated/internal/host/fsck/fscktest"
	"gated/internal/log/journal"
	"gated/internal/test/must"
)

// migrate opens a copy of the database as a later version does, which has more columns in the tables of jobs.
func (w *world) migrate() {
	require.NoError(w.t, w.store.Close())
	to := filepath.Join(w.t.TempDir(), "later")
	require.NoError(w.t, os.CopyFS(to, os.DirFS(filepath.Dir(w.path))))
	w.path = filepath.Join(to, filepath.Base(w.path))
	w.migrations = append(slices.Clone(gate.Migrations()), store.Migration{Version: len(gate.Migrations()) + 1, Name: "later columns", SQL: `
		ALTER TABLE steps ADD COLUMN later TEXT NOT NULL DEFAULT 'as ever';
		ALTER TABLE jobs ADD COLUMN more INTEGER;`})
	w.open()
}

// TestASegmentFromBeforeAMigration: its rows are those of the database, with the default in each later column. Rows that a version
// before left to delete are deleted, and the next segment has the columns.
func TestASegmentFromBeforeAMigration(t *testing.T) {
	w := archivedWorld(t)
	w.busy(110)
	w.pass(25 * time.Hour)
	w.some(3) // recorded, and some jobs are deleted
	require.Len(t, w.files(), 2)
	w.migrate()
	require.True(t, w.check(w.older()).Sound)
	require.Positive(t, w.archive())
	r := w.check(w.older())
	require.True(t, r.Sound, r.Problems)
	w.busy(110)
	w.pass(25 * time.Hour)
	require.Positive(t, w.archive())
	require.Len(t, w.files(), 3)
	r = w.check(w.older())
	require.True(t, r.Sound, r.Problems)
	for i, want := range []bool{false, false, true} {
		s := must.Get(w.older().Read(w.segmentRow(int64(i + 1))))(t)
		require.Equal(t, want, slices.Contains(s.Rows[2].Columns, "later"))
	}
	w.update(func(tx *store.Tx) error { _, err := tx.Exec(`UPDATE steps SET later = 'x' WHERE job = 1`); return err })
	r = w.check(w.older())
	require.Equal(t, []string{"archived-changed"}, codes(r))
	require.Equal(t, "j1", r.Problems[0].Where)
	w.breaks(r, fsck.Decided)
}

// TestALaterColumnWithAValueIsNotDeleted: no file has it.
func TestALaterColumnWithAValueIsNotDeleted(t *testing.T) {
	w := newWorld(t)
	w.busy(110)
	w.pass(25 * time.Hour)
	must.Get(w.keeper.Step(t.Context()))(t)
	w.migrate()
	fscktest.Breaks(t, w.store, fsck.Decided)
	w.update(func(tx *store.Tx) error { _, err := tx.Exec(`UPDATE jobs SET more = 1 WHERE id = 3`); return err })
	before := w.count("jobs")
	_, err := w.keeper.Step(t.Context())
	require.ErrorContains(t, err, "the rows of job j3 are not those in segment-")
	require.Equal(t, before, w.count("jobs"))
}

// TestAColumnThatASegmentHasAndTheDatabaseLost is an error, not a row that is equal.
func TestAColumnThatASegmentHasAndTheDatabaseLost(t *testing.T) {
	w := newWorld(t)
	w.view(func(tx *store.Tx) error {
		_, err := journal.DumpLike(tx, journal.Range{First: 1, Last: 1}, []journal.Dump{{Table: "jobs", Columns: []string{"id", "former"}}})
		require.ErrorContains(t, err, "2 columns of jobs, and the database has 1")
		return nil
	})
}
