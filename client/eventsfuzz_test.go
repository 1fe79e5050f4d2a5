package client

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/base/refusal"
)

// answering answers every call with the same, and then is gone.
type answering struct {
	status int
	kind   string
	body   []byte
}

func (a answering) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: a.status, Status: http.StatusText(a.status), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header: http.Header{"Content-Type": {a.kind}}, Body: io.NopCloser(bytes.NewReader(a.body)), ContentLength: -1}, nil
}

// FuzzEvents: whatever stands where an event stream should, events are handed on
// in order and each once, or it is an error; so is whatever stands where a
// refusal should.
func FuzzEvents(f *testing.F) {
	one := `data: {"seq":7,"time":"2026-03-01T12:00:00Z","kind":"approved"}` + "\n\n"
	f.Add([]byte("id: 7\n"+one+": heartbeat\n\n"), int64(3), 200)
	f.Add([]byte(one+one), int64(3), 200)
	f.Add([]byte("data: {\"seq\":7,\"seq\":8}\n\n"), int64(3), 200)
	f.Add([]byte("data: \xff\n"), int64(0), 200)
	f.Add([]byte(`{"code":"replayed","detail":"d","request":"j1.1"}`), int64(0), 409)
	f.Add([]byte(`{"code":"conflict","conflicts":[{"pattern":"a"}]}`), int64(0), 409)
	f.Add([]byte(`<html>`), int64(0), 502)
	f.Fuzz(func(t *testing.T, body []byte, after int64, status int) {
		if status < 200 || status > 599 || status/100 == 3 || after < 0 {
			return
		}
		c := &Client{timeout: callTimeout, opened: func() {}, http: &http.Client{Transport: answering{status, api.ProblemType, body}}}
		last := after
		stop := errors.New("enough")
		err := c.Events(context.Background(), after, false, func(e api.Entry) error {
			require.Greater(t, e.Seq, last)
			last = e.Seq
			if e.Seq > 1<<60 {
				return stop
			}
			return nil
		})
		if status/100 != 2 {
			require.NotNil(t, err)
			require.Equal(t, after, last)
			var r *refusal.Refusal
			require.ErrorAs(t, err, &r)
		}
	})
}
