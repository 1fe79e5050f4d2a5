package server

import (
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/base/refusal"
	"gated/internal/test/servicetest"
)

// sized returns a job's body of exactly n bytes.
func sized(n int) string {
	const head, tail = `{"op":"guest.start","target":"guest/db","reason":"`, `"}`
	return head + strings.Repeat("r", n-len(head)-len(tail)) + tail
}

// document returns a document of exactly n bytes.
func document(n int) string {
	line := strings.Repeat("#", 1000) + "\n"
	rest := n - len(servicetest.Document)
	return servicetest.Document + strings.Repeat(line, rest/len(line)) + strings.Repeat("\n", rest%len(line))
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
	require.Zero(t, w.reached())

	for n, status := range map[int]int{MaxDesired - 1: 200, MaxDesired: 200, MaxDesired + 1: 413} {
		r := w.do(t, "PUT", "/v1/desired/web", document(n))
		require.Equal(t, status, r.status, "%.200s", r.body)
		if status == 200 {
			set, err := w.Gate.Set(t.Context(), "web")
			require.NoError(t, err)
			require.Len(t, set.Body, n)
		}
	}
}

// A length that is not announced is counted.
func TestBodyLimitWithoutALength(t *testing.T) {
	w := start(t, -1, nil)
	before := w.reached()
	for n, status := range map[int]int{MaxDesired: 200, MaxDesired + 1: 413} {
		body := io.MultiReader(strings.NewReader(document(n))) // hides the length
		req, err := http.NewRequest("POST", "http://gated/v1/plan", body)
		require.NoError(t, err)
		resp, err := w.http.Do(req)
		require.NoError(t, err)
		require.Equal(t, status, resp.StatusCode)
		_, err = io.Copy(io.Discard, resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
	}
	require.EqualValues(t, before+2, w.reached(), "one plan: it lists the guests, and looks for app in the trash")
}

func TestBodiesGiveTheirMemoryBack(t *testing.T) {
	w := start(t, -1, func(c *Config) { c.Limits.Bodies, c.Limits.BodiesUID = 20<<20, 20<<20 })
	for range 2 {
		require.Equal(t, 200, w.do(t, "POST", "/v1/plan", document(MaxDesired)).status)
		require.Equal(t, 413, w.do(t, "POST", "/v1/plan", document(MaxDesired+1)).status)
	}
	w.server.bodies.mu.Lock()
	defer w.server.bodies.mu.Unlock()
	require.Zero(t, w.server.bodies.used)
	require.Empty(t, w.server.bodies.by)
}

func TestBodiesTogetherAreBounded(t *testing.T) {
	w := start(t, -1, func(c *Config) { c.Limits.Bodies, c.Limits.BodiesUID = 1<<20, 1<<20 })
	p := w.do(t, "POST", "/v1/plan", document(2<<20)).problem(t)
	require.Equal(t, refusal.OverLimit, p.Code)
	require.Equal(t, http.StatusTooManyRequests, p.Status)
	// Whoever holds it all does not keep small ones out.
	require.NoError(t, w.server.bodies.take(0, 1<<20))
	require.Equal(t, 200, w.do(t, "POST", "/v1/plan", document(freeBody-1)).status)
	require.Equal(t, 429, w.do(t, "POST", "/v1/plan", document(freeBody+1)).status)
}

// TestDecodedBodiesTogetherAreBounded: below, at and above what one uid's bodies
// may take once they are decoded, further ones wait. What operators signed, and
// reads, wait for none.
func TestDecodedBodiesTogetherAreBounded(t *testing.T) {
	body := aJob
	weight, err := api.Weigh([]byte(body))
	require.NoError(t, err)
	w := start(t, -1, func(c *Config) { c.Limits.DecodedUID, c.Limits.Decoded = 3*weight, 10*weight })
	hold, approval := w.Guests.Hold("db"), filled(t, w.World, "@approve@")
	statuses := make(chan int, 4)
	for range 4 {
		go func() { statuses <- w.do(t, "POST", "/v1/jobs", body).status }()
	}
	for range 3 {
		<-hold.Held
	}
	require.Eventually(t, func() bool { return w.server.decoded.Waiting() == 1 }, time.Minute, time.Millisecond)
	require.Empty(t, hold.Held, "the fourth waits")
	require.Equal(t, 200, w.do(t, "GET", "/v1/status", "").status)
	require.Equal(t, 200, w.do(t, "POST", "/v1/requests/j1.1/approve", approval).status)
	hold.End()
	for range 4 {
		require.Equal(t, 202, <-statuses)
	}
	require.Zero(t, w.server.decoded.Waiting())
}

// TestABodyThatFindsNoRoom: a call that waits for longer than it may is told so.
func TestABodyThatFindsNoRoom(t *testing.T) {
	w := start(t, -1, func(c *Config) { c.Limits.DecodedUID, c.Limits.Work = 1, 5*time.Second })
	end, err := w.server.decoded.Take(t.Context(), uint32(os.Getuid()), 1) // as a body under way
	require.NoError(t, err)
	p := w.do(t, "POST", "/v1/jobs", aJob).problem(t)
	require.Equal(t, refusal.OverLimit, p.Code)
	require.Equal(t, http.StatusTooManyRequests, p.Status)
	end()
	require.Equal(t, 202, w.do(t, "POST", "/v1/jobs", aJob).status)
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
	for n, status := range map[int]int{1: 202, maxKey - 1: 202, maxKey: 202, maxKey + 1: 400} {
		require.Equal(t, status, w.do(t, "POST", "/v1/jobs", aJob, "Idempotency-Key", strings.Repeat("k", n)).status, n)
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
	require.Zero(t, w.reached())
}
