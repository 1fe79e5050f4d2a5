package client

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/host/server"
	"gated/internal/test/servicetest"
)

// waitingFor calls WaitJob in the background, and returns once the daemon waits.
func waitingFor(t *testing.T, d *daemon, c *Client, id string, until api.Until) func() (api.Job, error) {
	t.Helper()
	type end struct {
		job api.Job
		err error
	}
	ended := make(chan end, 1)
	go func() {
		j, err := c.WaitJob(context.Background(), id, until)
		ended <- end{j, err}
	}()
	require.Eventually(t, func() bool { return d.Waits.Waiting() == 1 }, 10*time.Second, time.Millisecond)
	return func() (api.Job, error) {
		e := <-ended
		return e.job, e.err
	}
}

func TestWaitJobReturnsAtTheEnd(t *testing.T) {
	d, c := behind(t)
	end := waitingFor(t, d, c, "j4", api.UntilEnded)
	for _, id := range []op.JobID{3, 4} { // another job first
		_, err := d.Gate.Cancel(t.Context(), servicetest.Caller(), id)
		require.NoError(t, err)
	}
	job, err := end()
	require.NoError(t, err)
	require.Equal(t, op.StateCancelled, job.State)
	require.Zero(t, d.Waits.Waiting())
}

// An operator decides: the wait for that is over, and the one for the job's end is not.
func TestWaitJobReturnsAtADecision(t *testing.T) {
	d, c := behind(t)
	end := waitingFor(t, d, c, "j1", api.UntilDecided)
	_, err := c.Approve(t.Context(), "j1.1", d.Approval(t, op.RequestID{Job: 1, Index: 1}))
	require.NoError(t, err)
	job, err := end()
	require.NoError(t, err)
	require.Equal(t, op.StateAuthorized, job.State)

	rejected := waitingFor(t, d, c, "j2", api.UntilEnded)
	_, err = c.Reject(t.Context(), "j2.1", d.Rejection(t, op.RequestID{Job: 2, Index: 1}))
	require.NoError(t, err)
	job, err = rejected()
	require.NoError(t, err)
	require.Equal(t, op.StateRejected, job.State)
	require.Equal(t, refusal.Rejected, job.Error.Code)
}

// What stands as the caller wishes needs no wait, and neither does a job that is not there.
func TestWaitJobReturnsAtOnce(t *testing.T) {
	d, c := behind(t, func(c *server.Config) { c.Limits.JobWaits, c.Limits.JobWaitsUID = -1, -1 })
	job, err := c.WaitJob(t.Context(), "j1", api.UntilPending)
	require.NoError(t, err)
	require.Equal(t, op.StatePending, job.State)
	_, err = c.WaitJob(t.Context(), "j99", api.UntilEnded)
	require.ErrorIs(t, err, refusal.UnknownTarget)
	_, err = c.WaitJob(t.Context(), "j1", "done")
	require.ErrorIs(t, err, refusal.Malformed)
	require.Len(t, d.calls(), 2, "it was not asked")
	_, err = c.WaitJob(t.Context(), "j1", api.UntilEnded)
	require.ErrorIs(t, err, refusal.OverLimit)
}

func TestWaitJobEndsWithItsContext(t *testing.T) {
	d, c := behind(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		for d.Waits.Waiting() == 0 && ctx.Err() == nil {
			<-time.After(time.Millisecond)
		}
		cancel()
	}()
	job, err := c.WaitJob(ctx, "j1", api.UntilEnded)
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, "j1", job.ID)
	require.Eventually(t, func() bool { return d.Waits.Waiting() == 0 }, 10*time.Second, time.Millisecond)
}
