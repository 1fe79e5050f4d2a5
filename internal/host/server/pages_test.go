package server

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/test/servicetest"
)

// Every list ends its pages by bytes as by count, and each page leads to the next. The reasons and guests here weigh
// half a page each.
func TestPagesEndByBytes(t *testing.T) {
	behind := servicetest.Unwatched(t, t.TempDir())
	defer behind.Close(t)
	for _, name := range []string{"g1", "g2", "g3", "g4", "g5", "g6", "g7"} {
		behind.Guests.Put(name, op.Params{})
		behind.Submit(t, "guest.destroy", name)
	}
	require.NoError(t, behind.Store.Update(t.Context(), func(tx *store.Tx) error {
		_, err := tx.Exec("UPDATE jobs SET reason = ?", strings.Repeat("x", pageBytes/2))
		return err
	}))
	behind.Guests.Odd(strings.Repeat("x", pageBytes/6))
	w := startOn(t, behind, -1, nil)
	counts := map[string]int{"/v1/jobs": 17, "/v1/requests": 9, "/v1/guests": 11}
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
		require.Len(t, all, counts[path], path)
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
	_, err := w.Desired.PutSet(t.Context(), servicetest.Caller(), "web", "", []byte(document(large)))
	require.NoError(t, err)
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
	require.Equal(t, 202, w.do(t, "POST", "/v1/jobs", aJob).status, "what was done is always said")
	for _, c := range held {
		require.NoError(t, c.Close())
	}
	require.Eventually(t, func() bool { return w.do(t, "GET", "/v1/desired/web", "").status == 200 }, time.Minute, 10*time.Millisecond)
}
