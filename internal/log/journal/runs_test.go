package journal_test

import (
	"errors"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gated/internal/base/op"
	"gated/internal/base/store"
	"gated/internal/host/fsck"
	"gated/internal/host/fsck/fscktest"
	"gated/internal/log/journal"
	"gated/internal/test/must"
)

// Segments take jobs in any order. A list has each job that no segment has, once and in order, from any place on and in pages of
// any length, and the runs stay the fewest.
func TestAListPassesArchivedJobs(t *testing.T) {
	s, undo := newStore(t), errors.New("undo")
	rapid.Check(t, func(rt *rapid.T) {
		require.ErrorIs(rt, s.Update(t.Context(), func(tx *store.Tx) error {
			n := rapid.IntRange(1, 15).Draw(rt, "jobs")
			var present []op.JobID
			for i := range n {
				state := op.StateSucceeded
				if rapid.Bool().Draw(rt, "rejected") {
					state = op.StateRejected
				}
				add(t, tx, uid, step(0, 0, state))
				present = append(present, op.JobID(i+1))
			}
			for segment := range rapid.Int64Range(0, 5).Draw(rt, "segments") {
				var taken []op.JobID
				present = slices.DeleteFunc(present, func(id op.JobID) bool {
					goes := rapid.Bool().Draw(rt, "goes")
					if goes {
						taken = append(taken, id)
					}
					return goes
				})
				require.NoError(rt, journal.AddArchived(tx, segment+1, journal.RangesOf(taken)))
				require.Empty(rt, must.Get(journal.WrongRuns(tx))(t))
			}
			after := op.JobID(rapid.IntRange(0, n+1).Draw(rt, "after"))
			through := op.JobID(rapid.IntRange(0, n+1).Draw(rt, "through"))
			limit := rapid.IntRange(0, n).Draw(rt, "limit")
			state := rapid.SampledFrom([]op.State{"", op.StateSucceeded, op.StateRejected}).Draw(rt, "state")
			want := []op.JobID{}
			for _, id := range present {
				j := must.Get(journal.ReadJob(tx, id))(t)
				if id > after && (through == 0 || id <= through) && (state == "" || j.State() == state) && (limit == 0 || len(want) < limit) {
					want = append(want, id)
				}
			}
			require.Equal(rt, want, jobIDs(t, tx, journal.Filter{State: state, After: after, Through: through, Limit: limit}))
			return undo
		}), undo)
	})
}

// A caller chooses where a list begins.
func TestAListThatBeginsAtTheLastNumber(t *testing.T) {
	update(t, newStore(t), func(tx *store.Tx) {
		add(t, tx, uid, step(0, 0, op.StateSucceeded))
		require.NoError(t, journal.AddArchived(tx, 1, []journal.Range{{First: 1, Last: 1}}))
		for _, f := range []journal.Filter{{After: 1<<63 - 1}, {After: 1<<63 - 2}, {After: 1<<63 - 2, Through: 1<<63 - 1}, {Through: 1<<63 - 1}} {
			require.Empty(t, jobIDs(t, tx, f))
		}
	})
}

// The work of a page does not grow with the rows that stay of archived jobs.
func TestAPagePassesArchivedJobsWithOneLook(t *testing.T) {
	update(t, newStore(t), func(tx *store.Tx) {
		const n = 3000
		for range n {
			add(t, tx, uid, step(0, 0, op.StateSucceeded))
		}
		for segment := range int64(10) { // each segment takes every tenth job
			var taken []op.JobID
			for id := segment + 1; id < n; id += 10 {
				taken = append(taken, op.JobID(id))
			}
			require.NoError(t, journal.AddArchived(tx, segment+1, journal.RangesOf(taken)))
		}
		var count int
		require.NoError(t, tx.QueryRow(`SELECT count(*) FROM archived_runs`).Scan(&count))
		require.Equal(t, 1, count)
		require.Equal(t, []op.JobID{n}, jobIDs(t, tx, journal.Filter{Limit: 1}))
	})
}

// A damaged row of archived_runs, which fsck finds, gives a page no job twice, and the page ends.
func TestARunThatIsNone(t *testing.T) {
	s := newStore(t)
	fscktest.Breaks(t, s, fsck.Decided)
	update(t, s, func(tx *store.Tx) {
		for range 6 {
			add(t, tx, uid, step(0, 0, op.StateSucceeded))
		}
		must.Get(tx.Exec(`INSERT INTO archived_runs(first, last) VALUES(4, 1)`))(t)
		require.Equal(t, []op.JobID{1, 2, 3}, jobIDs(t, tx, journal.Filter{Limit: 5}))
	})
}

// A page that is full reads no more: its statements do not grow with the jobs after it.
func TestAFullPageReadsNoMore(t *testing.T) {
	statements := 0
	s := newStoreThat(t, func() error { statements++; return nil })
	var took [2]int
	for i := range took {
		update(t, s, func(tx *store.Tx) {
			for range 10 {
				add(t, tx, uid, step(0, 0, op.StateSucceeded))
				id := add(t, tx, uid, step(0, 0, op.StateSucceeded))
				require.NoError(t, journal.AddArchived(tx, 1, []journal.Range{{First: id, Last: id}}))
			}
		})
		update(t, s, func(tx *store.Tx) {
			before := statements
			require.Equal(t, []op.JobID{1, 3}, jobIDs(t, tx, journal.Filter{Limit: 2}))
			took[i] = statements - before
		})
	}
	require.Positive(t, took[0])
	require.Equal(t, took[0], took[1])
}

// A row that holds no numbers, as damage leaves it, is an error and no absence of wrong runs.
func TestARunWithoutNumbers(t *testing.T) {
	//fsck:none a table of it is made anew, which no store with a ledger allows
	s := must.Get(store.Open(t.Context(), filepath.Join(t.TempDir(), "journal.db"), store.Options{Migrations: schema}))(t)
	defer s.Close()
	update(t, s, func(tx *store.Tx) {
		must.Get(tx.Exec(`DROP TABLE archived_runs`))(t)
		must.Get(tx.Exec(`CREATE TABLE archived_runs(first INTEGER PRIMARY KEY, last INTEGER NOT NULL)`))(t)
		must.Get(tx.Exec(`INSERT INTO archived_runs(first, last) VALUES(4, 'x')`))(t)
		must.Err(journal.WrongRuns(tx))(t)
	})
}
