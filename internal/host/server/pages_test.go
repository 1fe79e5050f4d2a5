package server

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/wire/api"
)

// wide is a gate whose jobs and requests weigh half a page each, and a list of
// guests that does.
type wide struct {
	*fake
	n int
}

func (g wide) Jobs(_ context.Context, q JobQuery) (out []op.Job, err error) {
	weight := 0
	for id := q.After + 1; int(id) <= g.n && len(out) < q.Limit && weight < q.Bytes; id++ {
		j := op.Job{ID: id, CreatedAt: noon, Reason: strings.Repeat("x", pageBytes/2)}
		weight += j.Weight()
		out = append(out, j)
	}
	return out, nil
}

func (g wide) Requests(_ context.Context, q RequestQuery) (out []op.Request, err error) {
	weight := 0
	for id := q.After.Job + 1; int(id) <= g.n && len(out) < q.Limit && weight < q.Bytes; id++ {
		r := g.req
		r.ID = op.RequestID{Job: id, Index: 1}
		r.Reason = strings.Repeat("x", pageBytes/2)
		weight += r.Weight()
		out = append(out, r)
	}
	return out, nil
}

func (g wide) Guests(_ context.Context, _ op.Requester, q GuestQuery) (out []api.Guest, more bool, err error) {
	for n := 1; n <= g.n; n++ {
		name := fmt.Sprintf("g%04d", n)
		if name <= q.After {
			continue
		}
		if len(out) == 2 || len(out) == q.Limit {
			return out, true, nil
		}
		out = append(out, api.Guest{Name: name})
	}
	return out, false, nil
}

// Every list ends its pages by bytes as by count, and each page leads to the next.
func TestPagesEndByBytes(t *testing.T) {
	const n = 9
	w := start(t, -1, func(c *Config) { g := wide{c.Gate.(*fake), n}; c.Gate, c.Guests = g, g })
	for path, page := range map[string]func([]byte) ([]string, *string){
		"/v1/jobs": func(b []byte) (ids []string, next *string) {
			var l api.JobList
			require.NoError(t, api.DecodeAnswer(b, &l))
			for _, j := range l.Jobs {
				ids = append(ids, j.ID)
			}
			return ids, l.Next
		},
		"/v1/requests": func(b []byte) (ids []string, next *string) {
			var l api.RequestList
			require.NoError(t, api.DecodeAnswer(b, &l))
			for _, r := range l.Requests {
				ids = append(ids, r.ID)
			}
			return ids, l.Next
		},
		"/v1/guests": func(b []byte) (ids []string, next *string) {
			var l api.GuestList
			require.NoError(t, api.DecodeAnswer(b, &l))
			for _, g := range l.Guests {
				ids = append(ids, g.Name)
			}
			return ids, l.Next
		},
	} {
		var all []string
		for at := path; ; {
			r := w.do(t, "GET", at, "")
			require.Equal(t, 200, r.status, "%s", r.body)
			require.Less(t, len(r.body), 2*pageBytes, at)
			ids, next := page(r.body)
			require.NotEmpty(t, ids)
			require.LessOrEqual(t, len(ids), 2)
			all = append(all, ids...)
			if next == nil {
				break
			}
			at = path + "?after=" + *next
		}
		require.Len(t, all, n, path)
	}
	for _, path := range []string{"/v1/requests?after=j1", "/v1/requests?limit=0", "/v1/requests?limit=501", "/v1/guests?after=", "/v1/guests?limit=1001"} {
		require.Equal(t, 400, w.do(t, "GET", path, "").status, path)
	}
	require.Equal(t, 200, w.do(t, "GET", "/v1/requests?limit=500", "").status)
	require.Equal(t, 200, w.do(t, "GET", "/v1/guests?limit=1000", "").status)
}

// unread sends a request whose answer nobody takes.
func (w *world) unread(t *testing.T, path string) net.Conn {
	t.Helper()
	c, err := net.Dial("unix", w.path)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	_, err = fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: gated\r\n\r\n", path)
	require.NoError(t, err)
	line, err := bufio.NewReaderSize(c, 16).ReadString('\n') // the answer has begun
	require.NoError(t, err)
	require.Contains(t, line, "200")
	return c
}

// Answers that nobody takes are bounded in bytes for one uid; small ones always go.
func TestAnswersThatNobodyTakesAreBounded(t *testing.T) {
	const large = 1 << 20
	w := start(t, -1, func(c *Config) {
		c.Limits.AnswersUID = 3 * (large - freeAnswer)
		c.Limits.ListsUID, c.Limits.Lists = 16, 16
	})
	w.set1.Body = []byte(strings.Repeat("x", large))
	var held []net.Conn
	for range 2 {
		held = append(held, w.unread(t, "/v1/desired/web"))
	}
	require.Equal(t, 200, w.do(t, "GET", "/v1/desired/web", "").status, "at the bound")
	held = append(held, w.unread(t, "/v1/desired/web"))
	r := w.do(t, "GET", "/v1/desired/web", "")
	require.Equal(t, 429, r.status, "above")
	require.Contains(t, string(r.body), string(refusal.OverLimit))
	require.Equal(t, 200, w.do(t, "GET", "/v1/status", "").status)
	require.Equal(t, 202, w.do(t, "POST", "/v1/jobs", `{"op":"guest.start","target":"guest/web","reason":""}`).status, "what was done is always said")
	for _, c := range held {
		require.NoError(t, c.Close())
	}
	require.Eventually(t, func() bool { return w.do(t, "GET", "/v1/desired/web", "").status == 200 }, 10*time.Second, 10*time.Millisecond)
}
