package server

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/host/fsck/fscktest"
	"gated/internal/host/life"
	"gated/internal/test/servicetest"
)

// listenTo opens an event stream; lines gives its lines one by one.
func (w *world) listenTo(t *testing.T, query string, headers ...string) (lines *bufio.Reader, hangUp func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, "GET", "http://gated/v1/events"+query, nil)
	require.NoError(t, err)
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := w.http.Do(req)
	require.NoError(t, err)
	require.Equal(t, 200, resp.StatusCode)
	require.Equal(t, "text/event-stream", resp.Header.Get("Content-Type"))
	t.Cleanup(func() { _ = resp.Body.Close() }) // it may be cut off already
	return bufio.NewReader(resp.Body), cancel
}

// ids reads n events and returns their ids, joined.
func ids(t *testing.T, lines *bufio.Reader, n int) string {
	t.Helper()
	var out []string
	for len(out) < n {
		line, err := lines.ReadString('\n')
		require.NoError(t, err, "after %v", out)
		if id, ok := strings.CutPrefix(line, "id: "); ok {
			out = append(out, strings.TrimSpace(id))
		}
	}
	return strings.Join(out, " ")
}

func number(n int64) string { return strconv.FormatInt(n, 10) }

func TestEvents(t *testing.T) {
	w := start(t, -1, nil)
	n := w.Head(t)
	all, _ := w.listenTo(t, "")
	require.Equal(t, "1 2 3", ids(t, all, 3))
	lines, _ := w.listenTo(t, "?for=her&after="+number(n))
	w.Happen(t, 2, "her")
	w.Happen(t, 1) // is left out
	w.Happen(t, 1, "him", "her")
	require.Equal(t, number(n+1)+" "+number(n+2)+" "+number(n+4), ids(t, lines, 3))
	w.Happen(t, 1)
	w.Happen(t, 1, "her")
	require.Equal(t, number(n+6), ids(t, lines, 1))

	resumed, _ := w.listenTo(t, "?after="+number(n+4))
	require.Equal(t, number(n+5)+" "+number(n+6), ids(t, resumed, 2))
	resumed, _ = w.listenTo(t, "?after=1", "Last-Event-ID", number(n+5))
	require.Equal(t, number(n+6), ids(t, resumed, 1))

	entries, err := w.Log.Audit(t.Context(), n+5, 10, pageBytes)
	require.NoError(t, err)
	rest := w.do(t, "GET", "/v1/events?follow=false&after="+number(n+5), "")
	require.Equal(t, "id: "+number(n+6)+"\ndata: "+string(entries[0].Raw)+"\n\n", string(rest.body))
}

func TestEventsInBatches(t *testing.T) {
	w := start(t, -1, nil)
	for range eventBatch {
		w.Happen(t, 2, "her")
		w.Happen(t, 1)
	}
	w.Happen(t, 1, "her")
	b := w.do(t, "GET", "/v1/events?follow=false&for=her", "").body
	require.Equal(t, 2*eventBatch+1, strings.Count(string(b), "\ndata: "))
}

// Whoever opens all the streams that there are keeps no operator from the log or a backup, be it a process under the operator's own uid
// that goes by an agent's name.
func TestOperatorsFindAStream(t *testing.T) {
	w := start(t, -1, func(c *Config) { c.Limits.Streams, c.Limits.StreamsUID, c.Limits.StreamsKept = 3, 3, 1 })
	for range 2 {
		w.listenTo(t, "", api.TokenHeader, servicetest.Token())
	}
	p := w.do(t, "GET", "/v1/events", "", api.TokenHeader, servicetest.Token()).problem(t)
	require.Equal(t, refusal.OverLimit, p.Code)
	require.Equal(t, 200, w.do(t, "GET", "/v1/backup", "").status)
	w.listenTo(t, "")
	require.Equal(t, refusal.OverLimit, w.do(t, "GET", "/v1/backup", "").problem(t).Code, "operators are bounded, too")
}

func TestHeartbeat(t *testing.T) {
	w := start(t, -1, func(c *Config) { c.Limits.Beat = 10 * time.Millisecond })
	n := w.Head(t)
	lines, _ := w.listenTo(t, "?after="+number(n))
	beats(t, lines)
	w.Happen(t, 1)
	require.Equal(t, number(n+1), ids(t, lines, 1))
}

// TestAHeartbeatInAQuery: the time is over while the log is asked, whose error is another one then. The stream goes on.
func TestAHeartbeatInAQuery(t *testing.T) {
	w := start(t, -1, func(c *Config) { c.Limits.Beat = time.Nanosecond })
	lines, _ := w.listenTo(t, "?after="+number(w.Head(t)))
	beats(t, lines)
}

// beats reads two heartbeats.
func beats(t *testing.T, lines *bufio.Reader) {
	t.Helper()
	for range 2 {
		line, err := lines.ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, ": heartbeat\n", line)
		_, err = lines.ReadString('\n')
		require.NoError(t, err)
	}
}

// A stream outlives the limits of ordinary calls.
func TestAStreamLasts(t *testing.T) {
	w := start(t, -1, func(c *Config) {
		c.Limits.Header, c.Limits.Body, c.Limits.Work, c.Limits.Write = 3*time.Second, 3*time.Second, 3*time.Second, 3*time.Second
		c.Limits.Beat = 400 * time.Millisecond
	})
	n := w.Head(t)
	lines, _ := w.listenTo(t, "?after="+number(n))
	for range 20 { // ten heartbeats, an empty line each
		_, err := lines.ReadString('\n')
		require.NoError(t, err)
	}
	w.Happen(t, 1)
	require.Equal(t, number(n+1), ids(t, lines, 1))
}

func TestStreamsEndAtShutdown(t *testing.T) {
	w := start(t, -1, nil)
	n := w.Head(t)
	lines, _ := w.listenTo(t, "?after="+number(n))
	w.Happen(t, 1)
	require.Equal(t, number(n+1), ids(t, lines, 1))
	w.stop()
	_, err := io.ReadAll(lines)
	require.NoError(t, err, "a clean end, not a broken connection")
	require.NoError(t, <-w.ended)
	w.ended <- nil // for the cleanup
}

func TestShutdownLetsCallsFinish(t *testing.T) {
	w := start(t, -1, nil)
	hold := w.holdStatus()
	status := make(chan int)
	go func() {
		resp, err := w.http.Get("http://gated/v1/status")
		if err != nil {
			status <- 0
			return
		}
		_ = resp.Body.Close()
		status <- resp.StatusCode
	}()
	<-hold.Held
	w.stop()
	hold.End()
	require.Equal(t, 200, <-status)
}

func TestStreamsAreBounded(t *testing.T) {
	w := start(t, -1, func(c *Config) { c.Limits.Streams, c.Limits.StreamsUID = 3, 2 })
	_, hangUp := w.listenTo(t, "")
	w.listenTo(t, "")
	require.Equal(t, refusal.OverLimit, w.do(t, "GET", "/v1/events", "").problem(t).Code)
	require.Equal(t, 200, w.do(t, "GET", "/v1/status", "").status)
	hangUp()
	require.Eventually(t, func() bool {
		return w.do(t, "GET", "/v1/events?follow=false", "").status == 200
	}, time.Minute, 5*time.Millisecond, "a stream that was hung up keeps its place")
}

func TestBackup(t *testing.T) {
	w := start(t, -1, nil)
	w.Happen(t, 1000)
	r := w.do(t, "GET", "/v1/backup", "")
	require.Greater(t, len(r.body), 1<<18)
	require.True(t, strings.HasPrefix(string(r.body), "SQLite format 3"))
	path := filepath.Join(t.TempDir(), "copy.db")
	require.NoError(t, os.WriteFile(path, r.body, 0o600))
	fscktest.Open(t, path, store.Options{Migrations: life.Migrations()}) // checks that the copy is whole
	require.Equal(t, "application/octet-stream", r.header.Get("Content-Type"))
}

func TestABackupThatBreaksOffIsNotTakenForAWholeOne(t *testing.T) {
	var copies func(io.Writer) error
	w := start(t, -1, func(c *Config) { c.Backup = func(_ context.Context, out io.Writer) error { return copies(out) } })
	for name, end := range map[string]func() error{
		"error": func() error { return errors.New("disk") },
		"panic": func() error { panic("disk") },
	} {
		copies = func(out io.Writer) error {
			_, err := io.WriteString(out, strings.Repeat("x", 1<<20))
			require.NoError(t, err)
			return end()
		}
		resp, err := w.http.Get("http://gated/v1/backup")
		require.NoError(t, err)
		_, err = io.ReadAll(resp.Body)
		require.ErrorIs(t, err, io.ErrUnexpectedEOF, name)
		require.NoError(t, resp.Body.Close())
	}
	require.Equal(t, 200, w.do(t, "GET", "/v1/status", "").status)
}
