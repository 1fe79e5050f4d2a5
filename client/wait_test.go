package client

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
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
}

// The daemon has no place for a wait: the wait reads the job until that stands as the caller wishes, or ctx ends.
func TestWaitJobWithoutAPlace(t *testing.T) {
	d, c := behind(t, func(c *server.Config) { c.Limits.JobWaits, c.Limits.JobWaitsUID = -1, -1 })
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	waited := make(chan error, 1)
	go func() {
		job, err := c.WaitJob(ctx, "j4", api.UntilEnded)
		if job.ID != "j4" {
			err = fmt.Errorf("the job is %q: %w", job.ID, err)
		}
		waited <- err
	}()
	var asked []string
	require.Eventually(t, func() bool { asked = append(asked, d.calls()...); return len(asked) > 3 }, 20*time.Second, time.Millisecond)
	cancel()
	require.ErrorIs(t, <-waited, context.Canceled)
	asked = append(asked, d.calls()...)
	require.Equal(t, []string{"GET /v1/jobs/j4", "GET /v1/jobs/j4?until=ended&wait_seconds=45"}, asked[:2])
	require.NotContains(t, asked[2:], asked[1], "the daemon logs each refusal")

	ended := make(chan error, 1)
	go func() {
		job, err := c.WaitJob(t.Context(), "j4", api.UntilEnded)
		if err == nil && job.State != op.StateCancelled {
			err = fmt.Errorf("the job is %s", job.State)
		}
		ended <- err
	}()
	require.Eventually(t, func() bool { return len(d.calls()) > 0 }, 10*time.Second, time.Millisecond)
	_, err := d.Gate.Cancel(t.Context(), servicetest.Caller(), 4)
	require.NoError(t, err)
	require.NoError(t, <-ended)
}

// A wait without a place asks for one again at most every api.MaxWait seconds, and reads the job at least every five.
func TestThePausesOfAWaitWithoutAPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p placeless
		require.NoError(t, p.rest(t.Context()))
		for range 2 {
			p.begin()
			began, last := time.Now(), time.Now()
			for p.left > 0 {
				require.NoError(t, p.rest(t.Context()))
				require.LessOrEqual(t, time.Since(last), placeMost)
				last = time.Now()
			}
			require.Equal(t, api.MaxWait*time.Second, time.Since(began))
		}
	})
}

// Seventy callers of one uid wait for a job. There are places for 64 of them, and all of them hear how it ended.
func TestMoreWaitsThanPlaces(t *testing.T) {
	const callers = 70
	places := server.DefaultLimits().JobWaitsUID
	require.Less(t, places, callers)
	d, c := behind(t)
	ends := make(chan string, callers)
	for range callers {
		go func() {
			job, err := c.WaitJob(context.Background(), "j4", api.UntilEnded)
			ends <- fmt.Sprint(job.State, err)
		}()
	}
	waits := 0
	require.Eventually(t, func() bool {
		for _, asked := range d.calls() {
			if strings.Contains(asked, "wait_seconds") {
				waits++
			}
		}
		return waits == callers && d.Waits.Waiting() == places
	}, 30*time.Second, time.Millisecond)
	_, err := d.Gate.Cancel(t.Context(), servicetest.Caller(), 4)
	require.NoError(t, err)
	for range callers {
		require.Equal(t, fmt.Sprint(op.StateCancelled, nil), <-ends)
	}
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
