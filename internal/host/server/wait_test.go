package server

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/test/servicetest"
)

const aWait = `{"scope":{"path":"/nowhere/src","device":1,"inode":2},"patterns":["w"],"wait_seconds":3600}`

// waiting starts a server in which builder holds what aWait claims.
func waiting(t *testing.T, change func(*Config)) (w *world, theirs api.Reservation) {
	t.Helper()
	w = start(t, -1, change)
	claim := strings.Replace(goodClaim, "c/**", "w", 1)
	w.do(t, "POST", "/v1/reservations", claim, api.TokenHeader, servicetest.Token()).into(t, 201, &theirs)
	return w, theirs
}

// claimOn makes a claim that waits for so many seconds, on a connection of its own, and returns when it waits.
func (w *world) claimOn(t *testing.T, seconds string) (answers *bufio.Reader, hangUp func()) {
	t.Helper()
	body := strings.Replace(aWait, "3600", seconds, 1)
	conn := w.dial(t)
	_, err := io.WriteString(conn, "POST /v1/reservations HTTP/1.1\r\nHost: x\r\nContent-Length: "+
		strconv.Itoa(len(body))+"\r\n\r\n"+body)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return w.inWaits() == 1 }, time.Minute, time.Millisecond)
	return bufio.NewReader(conn), func() { require.NoError(t, conn.Close()) }
}

// inWaits is how many claims wait.
func (w *world) inWaits() int64 {
	w.server.waits.mu.Lock()
	defer w.server.waits.mu.Unlock()
	return w.server.waits.used
}

// letGo ends a reservation of builder's.
func (w *world) letGo(t *testing.T, r api.Reservation) {
	t.Helper()
	require.Equal(t, 200, w.do(t, "DELETE", "/v1/reservations/"+r.ID, "", api.TokenHeader, servicetest.Token()).status)
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
	w, theirs := waiting(t, func(c *Config) {
		c.Limits.Header, c.Limits.Body, c.Limits.Work, c.Limits.Write = 3*time.Second, 3*time.Second, 3*time.Second, 3*time.Second
		c.Limits.Beat = 80 * time.Millisecond
	})
	answers, _ := w.claimOn(t, "3600")
	lines, _ := w.listenTo(t, "?after="+number(w.Head(t))) // until every deadline of another call is over
	for range 100 {
		_, err := lines.ReadString('\n')
		require.NoError(t, err)
	}
	require.EqualValues(t, 1, w.inWaits())
	w.letGo(t, theirs)
	resp, err := http.ReadResponse(answers, nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusCreated, resp.StatusCode)
	require.NoError(t, resp.Body.Close())
}

func TestAClaimThatWaitedInVain(t *testing.T) {
	w, theirs := waiting(t, nil)
	answers, _ := w.claimOn(t, "1")
	p := problemFrom(t, answers)
	require.Equal(t, refusal.Conflict, p.Code)
	require.Equal(t, theirs.ID, p.Conflicts[0].Reservation.ID)
}

// A caller that hangs up leaves the queue.
func TestHangingUpEndsTheWait(t *testing.T) {
	w, theirs := waiting(t, func(c *Config) { c.Limits.WaitsUID = 1 })
	_, hangUp := w.claimOn(t, "3600")
	require.Equal(t, refusal.OverLimit, w.do(t, "POST", "/v1/reservations", aWait).problem(t).Code)
	require.Equal(t, 200, w.do(t, "GET", "/v1/events?follow=false", "").status, "waits are not the streams'")
	hangUp()
	require.Eventually(t, func() bool { return w.inWaits() == 0 }, time.Minute, time.Millisecond)
	answers, _ := w.claimOn(t, "3600")
	w.letGo(t, theirs)
	resp, err := http.ReadResponse(answers, nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusCreated, resp.StatusCode, "nothing stands before it in the queue")
	require.NoError(t, resp.Body.Close())
}

func TestWaitsEndAtShutdown(t *testing.T) {
	w, _ := waiting(t, nil)
	answers, _ := w.claimOn(t, "3600")
	w.stop()
	p := problemFrom(t, answers)
	require.Equal(t, refusal.Unavailable, p.Code)
	require.Equal(t, http.StatusServiceUnavailable, p.Status)
	require.NoError(t, <-w.ended)
	w.ended <- nil // for the cleanup
}

// A claim that does not wait has the deadline of every call: here, another transaction keeps the database longer.
func TestAClaimThatDoesNotWait(t *testing.T) {
	w := start(t, -1, func(c *Config) { c.Limits.Work = 100 * time.Millisecond })
	begun, end, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	begin := sync.OnceFunc(func() { close(begun) }) // the store may run a function twice
	go func() {
		ended <- w.Store.Update(context.Background(), func(*store.Tx) error {
			begin()
			<-end
			return nil
		})
	}()
	<-begun
	require.Equal(t, refusal.Internal, w.do(t, "POST", "/v1/reservations", goodClaim).problem(t).Code)
	close(end)
	require.NoError(t, <-ended)
}
