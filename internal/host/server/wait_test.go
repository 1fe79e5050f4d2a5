package server

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/refusal"
	"gated/internal/wire/api"
)

const aWait = `{"scope":{"path":"/src"},"patterns":["a"],"wait_seconds":3600}`

// waiting starts a server whose claims wait until the test decides.
func waiting(t *testing.T, change func(*Config)) *world {
	t.Helper()
	w := start(t, -1, change)
	w.change(func() { w.waits, w.decide = make(chan context.Context, 8), make(chan error) })
	return w
}

// claimOn makes a claim that waits, on a connection of its own.
func (w *world) claimOn(t *testing.T) (answers *bufio.Reader, its context.Context, hangUp func()) {
	t.Helper()
	conn := w.dial(t)
	_, err := io.WriteString(conn, "POST /v1/reservations HTTP/1.1\r\nHost: x\r\nContent-Length: "+
		strconv.Itoa(len(aWait))+"\r\n\r\n"+aWait)
	require.NoError(t, err)
	return bufio.NewReader(conn), <-w.waits, func() { require.NoError(t, conn.Close()) }
}

// problemFrom reads an answer that is a problem.
func problemFrom(t *testing.T, answers *bufio.Reader) api.Problem {
	t.Helper()
	resp, err := http.ReadResponse(answers, nil)
	require.NoError(t, err)
	b, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return reply{resp.StatusCode, resp.Header, b}.problem(t)
}

// A claim waits for longer than other answers take, and is answered after that.
func TestAClaimWaits(t *testing.T) {
	w := waiting(t, func(c *Config) {
		c.Limits.Header, c.Limits.Body, c.Limits.Work = 20*time.Millisecond, 20*time.Millisecond, 20*time.Millisecond
		c.Limits.Write, c.Limits.Beat = 20*time.Millisecond, 5*time.Millisecond
	})
	answers, its, _ := w.claimOn(t)
	deadline, ok := its.Deadline()
	require.True(t, ok)
	require.Greater(t, time.Until(deadline), 59*time.Minute)
	lines, _ := w.listenTo(t, "") // until every deadline of another call is over
	for range 40 {
		_, err := lines.ReadString('\n')
		require.NoError(t, err)
	}
	require.NoError(t, its.Err())
	w.decide <- nil
	resp, err := http.ReadResponse(answers, nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusCreated, resp.StatusCode)
	require.NoError(t, resp.Body.Close())
}

func TestAClaimThatWaitedInVain(t *testing.T) {
	w := waiting(t, nil)
	w.change(func() { w.conflicts = []api.Conflict{{Pattern: "a", Overlaps: "b"}} })
	answers, _, _ := w.claimOn(t)
	w.decide <- refusal.New(refusal.Conflict, "an hour was not enough")
	p := problemFrom(t, answers)
	require.Equal(t, refusal.Conflict, p.Code)
	require.Equal(t, "b", p.Conflicts[0].Overlaps)
}

// Whoever hangs up leaves the queue.
func TestHangingUpEndsTheWait(t *testing.T) {
	w := waiting(t, func(c *Config) { c.Limits.WaitsUID = 1 })
	_, its, hangUp := w.claimOn(t)
	require.Equal(t, refusal.OverLimit, w.do(t, "POST", "/v1/reservations", aWait).problem(t).Code)
	require.Equal(t, 200, w.do(t, "GET", "/v1/events?follow=false", "").status, "waits are not the streams'")
	hangUp()
	<-its.Done()
	require.ErrorIs(t, its.Err(), context.Canceled)
	require.Eventually(t, func() bool {
		w.server.waits.mu.Lock()
		defer w.server.waits.mu.Unlock()
		return w.server.waits.used == 0
	}, 10*time.Second, time.Millisecond)
	answers, _, _ := w.claimOn(t)
	w.decide <- refusal.New(refusal.Conflict, "no")
	require.Equal(t, refusal.Conflict, problemFrom(t, answers).Code)
}

func TestWaitsEndAtShutdown(t *testing.T) {
	w := waiting(t, nil)
	answers, its, _ := w.claimOn(t)
	w.stop()
	p := problemFrom(t, answers)
	require.Equal(t, refusal.Unavailable, p.Code)
	require.Equal(t, http.StatusServiceUnavailable, p.Status)
	require.ErrorIs(t, its.Err(), context.Canceled)
	require.NoError(t, <-w.ended)
	w.ended <- nil // for the cleanup
}

// A claim that does not wait has the deadline of every call.
func TestAClaimThatDoesNotWait(t *testing.T) {
	w := waiting(t, func(c *Config) { c.Limits.Work = 50 * time.Millisecond })
	require.Equal(t, refusal.Internal, w.do(t, "POST", "/v1/reservations", goodClaim).problem(t).Code)
	deadline, ok := (<-w.waits).Deadline()
	require.True(t, ok)
	require.Less(t, time.Until(deadline), time.Second)
}
