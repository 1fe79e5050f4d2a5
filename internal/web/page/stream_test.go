package page

import (
	"bufio"
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/test/must"
)

// listen opens the stream of a person, and returns what reads its next event; false at its
// end.
func (p *person) listen(ctx context.Context) func() ([]changedGate, bool) {
	p.c.t.Helper()
	r := must.Get(http.NewRequestWithContext(ctx, http.MethodGet, p.c.origin+"/events", nil))(p.c.t)
	resp := must.Get(p.client.Do(r))(p.c.t)
	p.c.t.Cleanup(func() { _ = resp.Body.Close() })
	require.Equal(p.c.t, http.StatusOK, resp.StatusCode)
	require.Equal(p.c.t, "text/event-stream", resp.Header.Get("Content-Type"))
	lines := bufio.NewScanner(resp.Body)
	return func() (news []changedGate, more bool) {
		for lines.Scan() {
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				require.NoError(p.c.t, json.Unmarshal([]byte(data), &news))
				return news, true
			}
		}
		return nil, false
	}
}

func TestEventsSayWhichGateChanged(t *testing.T) {
	t.Parallel()
	c := newConsole(t)
	p := c.listed("alice@example.com", op.Operational)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	next := p.listen(ctx)
	first, more := next()
	require.True(t, more)
	require.Len(t, first, 1)
	require.Equal(t, gateName, first[0].Name)
	c.gate.wait(t, "j1.1", nil)
	for version := first[0].Version; ; {
		news, more := next()
		require.True(t, more)
		require.Greater(t, news[0].Version, version)
		version = news[0].Version
		if g, _ := c.set.Get(gateName); len(g.Requests) == 1 {
			break
		}
	}
	status, _ := p.post("/sign-out", struct{}{})
	require.Equal(t, http.StatusOK, status)
	for more := true; more; {
		_, more = next() // the stream ends with its session
	}
}

// A key that is no longer listed hears of nothing.
func TestEventsAreForThoseWhoRead(t *testing.T) {
	t.Parallel()
	c := newConsole(t)
	p := c.listed("alice@example.com", op.Operational)
	c.gate.change(func() { c.gate.trust, c.gate.signers = "", nil })
	c.caught()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	news, more := p.listen(ctx)()
	require.True(t, more)
	require.Empty(t, news)
}

func TestStreamsAreBounded(t *testing.T) {
	t.Parallel()
	c := newConsole(t)
	p := c.listed("alice@example.com", op.Operational)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	for range 12 {
		p.listen(ctx)
	}
	status, b := p.get("/events")
	require.Equal(t, http.StatusTooManyRequests, status, "%s", b)
}
