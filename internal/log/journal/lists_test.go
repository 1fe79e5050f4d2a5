package journal_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/store"
	"gated/internal/log/journal"
	"gated/internal/test/must"
)

func jobIDs(t *testing.T, tx *store.Tx, f journal.Filter) []op.JobID {
	t.Helper()
	jobs := must.Get(journal.ReadJobs(tx, f))(t)
	ids := []op.JobID{}
	for _, j := range jobs {
		ids = append(ids, j.ID)
	}
	return ids
}

func TestReadJobsByState(t *testing.T) {
	update(t, newStore(t), func(tx *store.Tx) {
		add(t, tx, uid, step(0, 0, op.StateRejected))
		add(t, tx, uid, step(0, 0, op.StatePending), step(0, 0, op.StatePlanned))
		add(t, tx, uid, step(0, 0, op.StateSucceeded), step(0, 0, op.StatePlanned))
		add(t, tx, uid, step(0, 0, op.StateRejected), step(0, 0, op.StatePlanned))
		add(t, tx, uid, step(0, 0, op.StateSucceeded), step(0, 0, op.StateRejected))
		add(t, tx, uid, step(0, 0, op.StatePlanned), step(0, 0, op.StatePlanned))
		for _, c := range []struct {
			f    journal.Filter
			want []op.JobID
		}{
			{journal.Filter{}, []op.JobID{1, 2, 3, 4, 5, 6}},
			{journal.Filter{After: 1, Limit: 2}, []op.JobID{2, 3}},
			{journal.Filter{After: 1, Through: 2, Limit: 5}, []op.JobID{2}},
			{journal.Filter{State: op.StatePlanned}, []op.JobID{3, 4, 6}}, // job 2 waits first, and no job is listed twice
			{journal.Filter{State: op.StatePlanned, Limit: 2}, []op.JobID{3, 4}},
			{journal.Filter{State: op.StatePlanned, After: 4, Limit: 2}, []op.JobID{6}},
			{journal.Filter{State: op.StateRejected}, []op.JobID{1, 5}}, // job 4 is still open
			{journal.Filter{State: op.StateRejected, Limit: 1}, []op.JobID{1}},
			{journal.Filter{State: op.StateRejected, Through: 4}, []op.JobID{1}},
			{journal.Filter{State: op.StateRejected, After: 1, Through: 4}, []op.JobID{}},
			{journal.Filter{State: op.StateRejected, After: 4, Through: 5}, []op.JobID{5}},
		} {
			require.Equal(t, c.want, jobIDs(t, tx, c.f), "%+v", c.f)
		}
	})
}

func TestRequestsOfAClosedStateAreTheNewest(t *testing.T) {
	update(t, newStore(t), func(tx *store.Tx) {
		const n, most = 507, 500
		for i := range n {
			state := op.StateRejected
			if i == 3 {
				state = op.StatePending
			}
			id := op.StepID{Job: add(t, tx, uid, step(0, 0, state)), Index: 1}
			require.NoError(t, journal.AddRequest(tx, op.Request{ID: id, CreatedAt: now, Payload: []byte{}}))
		}
		rs := must.Get(journal.ReadRequests(tx, journal.RequestFilter{State: op.StateRejected}))(t)
		require.Len(t, rs, most)
		require.EqualValues(t, n-most+1, rs[0].ID.Job, "oldest first")
		require.EqualValues(t, n, rs[most-1].ID.Job)
		rs = must.Get(journal.ReadRequests(tx, journal.RequestFilter{State: op.StatePending}))(t)
		require.Len(t, rs, 1, "what is open is listed, however old")
	})
}
