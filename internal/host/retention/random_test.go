package retention_test

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/gate"
	"gated/internal/test/must"
)

// TestHistoriesAtRandom: after any history, with archiving and starts in between, each job is read as it was or is said to be
// archived, what waits still waits, what an operator rejected is still rejected, provenance stays, and each head of the log
// continues. fsck looks at each database when the test ends.
func TestHistoriesAtRandom(t *testing.T) {
	ran, gone := 0, 0
	rapid.Check(t, func(r *rapid.T) {
		if ran++; ran > histories() {
			return
		}
		w := newWorld(t)
		seen := map[op.JobID]op.Job{}
		archived := map[op.JobID]bool{}
		guests := []string{"a", "b", "c"}
		for range rapid.IntRange(3, 5).Draw(r, "rounds") {
			for range rapid.IntRange(30, 60).Draw(r, "jobs") {
				w.step(r, rapid.SampledFrom(guests).Draw(r, "guest"))
			}
			w.pass(time.Duration(rapid.IntRange(1, 50).Draw(r, "hours")) * time.Hour)
			w.compare(seen, archived)
			before := w.provenance()
			heads := w.heads()
			w.some(rapid.SampledFrom([]int{0, 1, 2, 7, 5000}).Draw(r, "steps"))
			if rapid.Bool().Draw(r, "restart") {
				w.restart()
			}
			require.Equal(t, before, w.provenance())
			w.compare(seen, archived)
			w.proofs(heads)
		}
		w.pass(25 * time.Hour) // whatever came before, a tile is old enough now
		w.archive()
		w.compare(seen, archived)
		gone += len(archived)
	})
	require.Positive(t, gone, "no history had anything to archive")
}

// histories is how many of them one run plays. Each takes a second or two.
func histories() int {
	if n, err := strconv.Atoi(os.Getenv("GATED_ARCHIVE_HISTORIES")); err == nil {
		return n
	}
	return 10
}

// step does something with a guest.
func (w *world) step(r *rapid.T, guest string) {
	_, there := w.guests[guest]
	_, trashed := w.trash[guest]
	switch what := rapid.IntRange(0, 9).Draw(r, "what"); {
	case !there && trashed && what < 5:
		w.try("guest.undelete", guest)
	case !there:
		w.try("guest.create", guest)
	case what == 0:
		if j := w.try("guest.destroy", guest); j != nil && j.State() == op.StatePending {
			w.approve(j.Steps[0].ID)
		}
	case what == 1:
		if j := w.try("guest.destroy", guest); j != nil && j.State() == op.StatePending {
			w.reject(j.Steps[0].ID)
		}
	case what == 2:
		w.try("guest.destroy", guest) // it waits
	case w.guests[guest].Running == op.Running:
		w.try("guest.stop", guest)
	default:
		w.try("guest.start", guest)
	}
}

// try submits a step and runs what may run. Some are refused, such as one that was rejected before.
func (w *world) try(name, guest string) *op.Job {
	w.made++
	j, err := w.gate.Submit(w.t.Context(), op.Submission{Requester: hub, Steps: []op.Ask{ask(name, guest)}, Reason: fmt.Sprint("try ", w.made)})
	if err != nil {
		require.NotErrorIs(w.t, err, refusal.Internal)
		return nil
	}
	w.run()
	j = must.Get(w.gate.Job(w.t.Context(), j.ID))(w.t)
	return &j
}

// some archives for so many steps.
func (w *world) some(n int) {
	for range n {
		did, err := w.keeper.Step(w.t.Context())
		require.NoError(w.t, err)
		if !did {
			return
		}
	}
}

// compare reads every job and request: a closed one is as it was, or archived for ever.
func (w *world) compare(seen map[op.JobID]op.Job, archived map[op.JobID]bool) {
	w.t.Helper()
	var last int64
	w.view(func(tx *store.Tx) error {
		return tx.QueryRow(`SELECT seq FROM sqlite_sequence WHERE name = 'jobs'`).Scan(&last)
	})
	listed := map[op.JobID]bool{}
	for _, j := range must.Get(w.gate.Jobs(w.t.Context(), gate.JobFilter{}))(w.t) {
		listed[j.ID] = true
	}
	for id := op.JobID(1); id <= op.JobID(last); id++ {
		j, err := w.gate.ShownJob(w.t.Context(), id)
		if err != nil {
			require.ErrorIs(w.t, err, refusal.UnknownTarget)
			require.ErrorContains(w.t, err, "archived in segment")
			require.False(w.t, listed[id])
			was, known := seen[id]
			require.True(w.t, known && !was.State().Open(), "only what had ended may go")
			_, err = w.gate.Request(w.t.Context(), op.StepID{Job: id, Index: 1})
			require.Error(w.t, err)
			archived[id] = true
			continue
		}
		require.False(w.t, archived[id], "what is archived stays archived")
		require.True(w.t, listed[id])
		if was, known := seen[id]; known && !was.State().Open() {
			require.Equal(w.t, was, j)
		}
		seen[id] = j
	}
}

// provenance is every row that decisions on guests read.
func (w *world) provenance() (out []string) {
	w.view(func(tx *store.Tx) error {
		for _, query := range []string{`SELECT incarnation || kind || name || creator || job || scratch || ended || used FROM incarnations ORDER BY 1`,
			`SELECT incarnation || id || job FROM storage ORDER BY 1`, `SELECT job || who || wish || at FROM rejections ORDER BY 1`,
			`SELECT nonce || job || fate FROM nonces ORDER BY 1`, `SELECT caller || key || job FROM idempotency ORDER BY 1`,
			`SELECT s.job || s.state || s.name || s.incarnation || s.updated_at || q.who FROM steps s JOIN requesters q ON q.job = s.job WHERE s.op IN ('guest.destroy', 'guest.create') ORDER BY 1`,
			`SELECT job || wish FROM steps WHERE state = 'rejected' AND wish <> '' ORDER BY 1`} {
			rows, err := tx.Query(query)
			if err != nil {
				return err
			}
			for rows.Next() {
				var text string
				if err := rows.Scan(&text); err != nil {
					return err
				}
				out = append(out, text)
			}
			if err := rows.Err(); err != nil {
				return err
			}
		}
		return nil
	})
	return out
}
