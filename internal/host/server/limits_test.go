package server

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/wire/api"
)

// sized returns a job's body of exactly n bytes.
func sized(n int) string {
	const head, tail = `{"op":"guest.start","target":"guest/web-1","reason":"`, `"}`
	return head + strings.Repeat("r", n-len(head)-len(tail)) + tail
}

func TestBodyLimit(t *testing.T) {
	w := start(t, -1, nil)
	for _, c := range []struct {
		bytes, status int
	}{
		// A reason of that length is itself too long: 413 by another sentence.
		{MaxBody - 1, 413}, {MaxBody, 413}, {MaxBody + 1, 413},
	} {
		p := w.do(t, "POST", "/v1/jobs", sized(c.bytes)).problem(t)
		require.Equal(t, refusal.Oversized, p.Code)
		require.Equal(t, c.bytes > MaxBody, strings.Contains(p.Detail, strconv.Itoa(MaxBody)), p.Detail)
	}
	require.Empty(t, w.calls())

	for n, status := range map[int]int{MaxDesired - 1: 200, MaxDesired: 200, MaxDesired + 1: 413} {
		r := w.do(t, "PUT", "/v1/desired/web", strings.Repeat("x", n))
		require.Equal(t, status, r.status)
		if status == 200 {
			require.Len(t, w.document, n)
		}
	}
}

// A length that is not announced is counted.
func TestBodyLimitWithoutALength(t *testing.T) {
	w := start(t, -1, nil)
	for n, status := range map[int]int{MaxDesired: 200, MaxDesired + 1: 413} {
		body := io.MultiReader(bytes.NewReader(make([]byte, n))) // hides the length
		req, err := http.NewRequest("POST", "http://gated/v1/plan", body)
		require.NoError(t, err)
		resp, err := w.http.Do(req)
		require.NoError(t, err)
		require.Equal(t, status, resp.StatusCode)
		_, err = io.Copy(io.Discard, resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
	}
	require.Equal(t, []string{"Plan"}, w.calls())
}

func TestBodiesGiveTheirMemoryBack(t *testing.T) {
	w := start(t, -1, func(c *Config) { c.Limits.Bodies, c.Limits.BodiesUID = 20<<20, 20<<20 })
	for range 2 {
		require.Equal(t, 200, w.do(t, "POST", "/v1/plan", strings.Repeat("x", MaxDesired)).status)
		require.Equal(t, 413, w.do(t, "POST", "/v1/plan", strings.Repeat("x", MaxDesired+1)).status)
	}
	w.server.bodies.mu.Lock()
	defer w.server.bodies.mu.Unlock()
	require.Zero(t, w.server.bodies.used)
	require.Empty(t, w.server.bodies.by)
}

func TestBodiesTogetherAreBounded(t *testing.T) {
	w := start(t, -1, func(c *Config) { c.Limits.Bodies, c.Limits.BodiesUID = 1<<20, 1<<20 })
	p := w.do(t, "POST", "/v1/plan", strings.Repeat("x", 2<<20)).problem(t)
	require.Equal(t, refusal.OverLimit, p.Code)
	require.Equal(t, http.StatusTooManyRequests, p.Status)
	// Whoever holds it all does not keep small ones out.
	require.NoError(t, w.server.bodies.take(0, 1<<20))
	require.Equal(t, 200, w.do(t, "POST", "/v1/plan", strings.Repeat("x", freeBody-1)).status)
	require.Equal(t, 429, w.do(t, "POST", "/v1/plan", strings.Repeat("x", freeBody+1)).status)
}

// TestDecodedBodiesTogetherAreBounded: below, at and above what one uid's bodies
// may take once they are decoded, further ones wait. What operators signed, and
// reads, wait for none.
func TestDecodedBodiesTogetherAreBounded(t *testing.T) {
	body := `{"op":"guest.start","target":"guest/web-1"}`
	weight, err := api.Weigh([]byte(body))
	require.NoError(t, err)
	f := slowSubmit{fake: newFake(t), held: make(chan struct{}, 10), hold: make(chan struct{})}
	w := start(t, -1, func(c *Config) { c.Gate, c.Limits.DecodedUID, c.Limits.Decoded = f, 3*weight, 10*weight })
	statuses := make(chan int, 4)
	for range 4 {
		go func() { statuses <- w.do(t, "POST", "/v1/jobs", body).status }()
	}
	for range 3 {
		<-f.held
	}
	require.Eventually(t, func() bool { return w.server.decoded.Waiting() == 1 }, 20*time.Second, time.Millisecond)
	require.Empty(t, f.held, "the fourth waits")
	require.Equal(t, 200, w.do(t, "GET", "/v1/status", "").status)
	require.Equal(t, 202, w.do(t, "POST", "/v1/requests/j12.1/approve", goodEnvelope).status)
	close(f.hold)
	for range 4 {
		require.Equal(t, 202, <-statuses)
	}
	require.Zero(t, w.server.decoded.Waiting())
}

// TestABodyThatFindsNoRoom: who waits for longer than it may is told so.
func TestABodyThatFindsNoRoom(t *testing.T) {
	f := slowSubmit{fake: newFake(t), held: make(chan struct{}, 10), hold: make(chan struct{})}
	w := start(t, -1, func(c *Config) { c.Gate, c.Limits.DecodedUID, c.Limits.Work = f, 1, 300*time.Millisecond })
	body := `{"op":"guest.start","target":"guest/web-1"}`
	first := make(chan int, 1)
	go func() { first <- w.do(t, "POST", "/v1/jobs", body).status }()
	<-f.held
	p := w.do(t, "POST", "/v1/jobs", body).problem(t)
	require.Equal(t, refusal.OverLimit, p.Code)
	require.Equal(t, http.StatusTooManyRequests, p.Status)
	close(f.hold)
	require.Equal(t, 202, <-first)
}

// slowSubmit is a gate whose submits last until the test lets them go on.
type slowSubmit struct {
	*fake
	held, hold chan struct{}
}

func (s slowSubmit) Submit(ctx context.Context, sub op.Submission) (op.Job, error) {
	s.held <- struct{}{}
	<-s.hold
	return s.fake.Submit(ctx, sub)
}

func TestQuota(t *testing.T) {
	q := newQuota("things", 3, 2)
	require.NoError(t, q.take(1, 2))
	require.ErrorIs(t, q.take(1, 1), refusal.OverLimit)
	require.NoError(t, q.take(2, 1))
	require.ErrorIs(t, q.take(3, 1), refusal.OverLimit)
	q.give(1, 1)
	require.NoError(t, q.take(3, 1))
	require.ErrorIs(t, q.take(1, 1), refusal.OverLimit)
}

// Some places are left to those who may ask for them: of all, and of a uid's own.
func TestQuotaLeavesSome(t *testing.T) {
	q := newQuota("things", 5, 4)
	require.NoError(t, q.takeLeaving(1, 2, 2))
	require.ErrorIs(t, q.takeLeaving(1, 1, 2), refusal.OverLimit, "of its own")
	require.NoError(t, q.takeLeaving(2, 1, 2))
	require.ErrorIs(t, q.takeLeaving(3, 1, 2), refusal.OverLimit, "of all")
	require.NoError(t, q.take(1, 2))
	require.ErrorIs(t, q.take(2, 1), refusal.OverLimit)
}

func TestIdempotencyKeyLimit(t *testing.T) {
	w := start(t, -1, nil)
	const job = `{"op":"guest.start","target":"guest/web-1"}`
	for n, status := range map[int]int{1: 202, maxKey - 1: 202, maxKey: 202, maxKey + 1: 400} {
		require.Equal(t, status, w.do(t, "POST", "/v1/jobs", job, "Idempotency-Key", strings.Repeat("k", n)).status, n)
		if status == 202 {
			require.Len(t, w.sub.IdempotencyKey, n)
		}
	}
}

func TestHeaderLimit(t *testing.T) {
	w := start(t, -1, nil)
	require.Equal(t, 200, w.do(t, "GET", "/v1/status", "", "X-Long", strings.Repeat("x", maxHeader-1000)).status)
	require.Equal(t, 431, w.do(t, "GET", "/v1/status", "", "X-Long", strings.Repeat("x", 4*maxHeader)).status)
}

func TestZeroLimitsTakeTheirDefaults(t *testing.T) {
	require.Equal(t, DefaultLimits(), Limits{}.orDefault())
	l := Limits{Conns: 3, Beat: time.Second}.orDefault()
	require.Equal(t, 3, l.Conns)
	require.Equal(t, time.Second, l.Beat)
}

func TestABodyThatDoesNotArrive(t *testing.T) {
	w := start(t, -1, func(c *Config) { c.Limits.Body = 200 * time.Millisecond })
	conn := w.dial(t)
	_, err := io.WriteString(conn, "POST /v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
	require.NoError(t, err)
	b, err := io.ReadAll(conn)
	require.NoError(t, err)
	require.Contains(t, string(b), "HTTP/1.1 400 ")
	require.Contains(t, string(b), "did not arrive within")
	require.Empty(t, w.calls())
}
