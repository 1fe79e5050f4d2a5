package retention_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/store"
	"gated/internal/log/journal"
)

// TestFirstNeededIsNeededOfEach: the quick look in the transaction that records a segment lets no job go that the other one keeps.
func TestFirstNeededIsNeededOfEach(t *testing.T) {
	w := newWorld(t)
	w.do("guest.create", "web")
	w.do("guest.create", "db")
	w.approve(w.submit(ask("guest.destroy", "web")).Steps[0].ID)
	w.reject(w.submit(ask("guest.destroy", "db")).Steps[0].ID)
	w.busy(30)
	w.pass(25 * time.Hour)
	w.busy(3) // too new
	w.do("guest.create", "more")
	w.submit(ask("guest.destroy", "more")) // it waits
	before := w.clock.Now().Add(-24 * time.Hour)
	last := op.JobID(w.count("jobs"))
	odd := func(id op.StepID) bool { return id.Job%11 != 0 }
	w.view(func(tx *store.Tx) error {
		referred, err := journal.Referred(tx, journal.AllJobs)
		require.NoError(t, err)
		var free, all []op.JobID
		reasons := map[string]bool{}
		for id := op.JobID(1); id <= last; id++ {
			want, err := journal.Needed(tx, id, before, odd, referred)
			require.NoError(t, err)
			job, why, err := journal.FirstNeeded(tx, []journal.Range{{First: id, Last: id}}, before, odd)
			require.NoError(t, err)
			require.Equal(t, want, why, id)
			require.Equal(t, want != "", job == id)
			if all = append(all, id); want == "" {
				free = append(free, id)
			}
			reasons[why] = true
		}
		require.Greater(t, len(reasons), 4, "each kind of reason: %v", reasons)
		require.Greater(t, len(free), 20)
		_, why, err := journal.FirstNeeded(tx, journal.RangesOf(free), before, odd)
		require.NoError(t, err)
		require.Empty(t, why)
		for _, id := range all {
			with := append([]op.JobID{}, all[:id]...)
			job, why, err := journal.FirstNeeded(tx, journal.RangesOf(with), before, odd)
			require.NoError(t, err)
			require.Equal(t, len(with) > len(freeUpTo(free, id)), why != "", "%s of jobs up to %s: %s", job, id, why)
		}
		job, why, err := journal.FirstNeeded(tx, []journal.Range{{First: 5, Last: 5}, {First: last + 500, Last: last + 500}}, before, odd)
		require.NoError(t, err)
		require.NotEmpty(t, why, "a job that is not there: %s", job)
		return nil
	})
}

func freeUpTo(free []op.JobID, last op.JobID) (out []op.JobID) {
	for _, id := range free {
		if id <= last {
			out = append(out, id)
		}
	}
	return out
}
