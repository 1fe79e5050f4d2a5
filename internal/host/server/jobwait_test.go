package server

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/test/servicetest"
)

// waitOn asks for a job on a connection of its own, and returns when as many callers wait.
func (w *world) waitOn(t *testing.T, path string, callers int) (answers *bufio.Reader, hangUp func()) {
	t.Helper()
	conn := w.dial(t)
	_, err := io.WriteString(conn, "GET "+path+" HTTP/1.1\r\nHost: x\r\n\r\n")
	require.NoError(t, err)
	require.Eventually(t, func() bool { return w.Waits.Waiting() == callers }, time.Minute, time.Millisecond)
	return bufio.NewReader(conn), func() { require.NoError(t, conn.Close()) }
}

// jobFrom reads an answer that is a job.
func jobFrom(t *testing.T, answers *bufio.Reader) (j api.Job) {
	t.Helper()
	resp, err := http.ReadResponse(answers, nil)
	require.NoError(t, err)
	b, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	reply{resp.StatusCode, resp.Header, b}.into(t, 200, &j)
	return j
}

func (w *world) cancelJob(t *testing.T, id op.JobID) {
	t.Helper()
	_, err := w.Gate.Cancel(context.Background(), servicetest.Caller(), id)
	require.NoError(t, err)
}

// The answer comes when the job has ended, after the deadline of other calls, and a change of another job is none.
func TestACallWaitsForAJob(t *testing.T) {
	w := start(t, -1, func(c *Config) {
		c.Limits.Header, c.Limits.Body, c.Limits.Work, c.Limits.Write = 3*time.Second, 3*time.Second, 3*time.Second, 3*time.Second
		c.Limits.Beat = 160 * time.Millisecond
	})
	answers, _ := w.waitOn(t, "/v1/jobs/j4?wait_seconds=45", 1)
	w.cancelJob(t, 3)
	lines, _ := w.listenTo(t, "?after="+number(w.Head(t))) // until every deadline of another call is over
	for range 50 {
		_, err := lines.ReadString('\n')
		require.NoError(t, err)
	}
	require.Equal(t, 1, w.Waits.Waiting())
	w.cancelJob(t, 4)
	require.Equal(t, op.StateCancelled, jobFrom(t, answers).State)
	require.Zero(t, w.Waits.Waiting())
}

// A wait for a decision ends with the approval, and one for the end goes on.
func TestWaitsForADecision(t *testing.T) {
	w := start(t, -1, nil)
	decided, _ := w.waitOn(t, "/v1/jobs/j1?wait_seconds=45&until=decided", 1)
	ended, _ := w.waitOn(t, "/v1/jobs/j1?wait_seconds=45&until=ended", 2)
	require.Equal(t, 200, w.do(t, "POST", "/v1/requests/j1.1/approve", filled(t, w.World, "@approve@")).status)
	require.Equal(t, op.StateAuthorized, jobFrom(t, decided).State)
	require.Equal(t, 1, w.Waits.Waiting())
	w.cancelJob(t, 1)
	require.Equal(t, op.StateCancelled, jobFrom(t, ended).State)
	var j api.Job
	w.do(t, "GET", "/v1/jobs/j2?wait_seconds=45&until=pending_signature", "").into(t, 200, &j)
	require.Equal(t, op.StatePending, j.State, "it stands so already")
}

// When the time is up, the answer is the job as it is then.
func TestAWaitInVain(t *testing.T) {
	w := start(t, -1, nil)
	var j api.Job
	w.do(t, "GET", "/v1/jobs/j2?wait_seconds=1", "").into(t, 200, &j)
	require.Equal(t, op.StatePending, j.State)
	require.Zero(t, w.Waits.Waiting())
}

// A caller that hangs up gives its place back.
func TestHangingUpEndsTheWaitForAJob(t *testing.T) {
	w := start(t, -1, func(c *Config) { c.Limits.JobWaitsUID = 1 })
	_, hangUp := w.waitOn(t, "/v1/jobs/j4?wait_seconds=45", 1)
	p := w.do(t, "GET", "/v1/jobs/j5?wait_seconds=45", "").problem(t)
	require.Equal(t, refusal.OverLimit, p.Code)
	require.Equal(t, 200, w.do(t, "GET", "/v1/jobs/j4", "").status, "a call that does not wait needs no place")
	hangUp()
	require.Eventually(t, func() bool { return w.Waits.Waiting() == 0 }, time.Minute, time.Millisecond)
	require.Eventually(t, func() bool {
		w.server.jobWaits.mu.Lock()
		defer w.server.jobWaits.mu.Unlock()
		return w.server.jobWaits.used == 0
	}, time.Minute, time.Millisecond)
	answers, _ := w.waitOn(t, "/v1/jobs/j4?wait_seconds=45", 1)
	w.cancelJob(t, 4)
	require.Equal(t, op.StateCancelled, jobFrom(t, answers).State)
}

// A stop of the daemon ends each wait, and says so.
func TestWaitsForJobsEndAtShutdown(t *testing.T) {
	w := start(t, -1, nil)
	answers, _ := w.waitOn(t, "/v1/jobs/j4?wait_seconds=45", 1)
	w.stop()
	p := problemFrom(t, answers)
	require.Equal(t, refusal.Unavailable, p.Code)
	require.Contains(t, p.Detail, "the daemon stops")
	require.Equal(t, http.StatusServiceUnavailable, p.Status)
	require.NoError(t, <-w.ended)
	w.ended <- nil // for the cleanup
}

// A caller that may not read a job may not wait for it, and one that is not there is said at once.
func TestAWaitShowsNoMoreThanTheJob(t *testing.T) {
	w := start(t, -1, nil)
	for _, path := range []string{"/v1/jobs/j99", "/v1/jobs/j0", "/v1/jobs/x"} {
		plain, waiting := w.do(t, "GET", path, "").problem(t), w.do(t, "GET", path+"?wait_seconds=45", "").problem(t)
		require.Equal(t, plain, waiting, path)
	}
	plain := w.do(t, "GET", "/v1/jobs/j1", "", api.TokenHeader, "not-a-token").problem(t)
	waiting := w.do(t, "GET", "/v1/jobs/j1?wait_seconds=45", "", api.TokenHeader, "not-a-token").problem(t)
	require.Equal(t, refusal.NotAllowed, plain.Code)
	require.Equal(t, plain, waiting)
	require.Zero(t, w.Waits.Waiting())
}

func TestUnclearWaits(t *testing.T) {
	w := start(t, -1, nil)
	for _, query := range []string{"wait_seconds=", "wait_seconds=0", "wait_seconds=-1", "wait_seconds=46", "wait_seconds=1.5",
		"wait_seconds=30s", "wait_seconds=1&wait_seconds=1", "until=ended", "wait_seconds=1&until=", "wait_seconds=1&until=done",
		"wait=30", "wait_seconds=1&state=failed"} {
		p := w.do(t, "GET", "/v1/jobs/j1?"+query, "").problem(t)
		require.Equal(t, refusal.Malformed, p.Code, query)
	}
}

// As many callers as there are places wait for one job, and one change answers all of them.
func TestManyCallersWaitForOneJob(t *testing.T) {
	const callers = 100
	w := start(t, -1, func(c *Config) { c.Limits.JobWaits, c.Limits.JobWaitsUID = callers, callers })
	states := make(chan string, callers)
	for range callers {
		go func() {
			resp, err := w.http.Get("http://gated/v1/jobs/j4?wait_seconds=45")
			if err != nil {
				states <- err.Error()
				return
			}
			b, err := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			var j api.Job
			if err == nil {
				err = api.DecodeAnswer(b, &j)
			}
			states <- fmt.Sprint(j.State, err)
		}()
	}
	require.Eventually(t, func() bool { return w.Waits.Waiting() == callers }, 30*time.Second, time.Millisecond)
	w.cancelJob(t, 4)
	for range callers {
		require.Equal(t, fmt.Sprint(op.StateCancelled, nil), <-states)
	}
}
