package server

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

// A daemon without a gate answers every path, method and body with one refusal, by the uid of the caller alone. Nobody who sends
// nothing keeps it from its end.
func TestServeRefusal(t *testing.T) {
	socket := must.Get(Listen(filepath.Join(t.TempDir(), "s"), -1))(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	asked := make(chan uint32, 64)
	ended := make(chan error, 1)
	go func() {
		ended <- New(Config{Limits: Limits{Drain: time.Millisecond}, Now: time.Now}).ServeRefusal(ctx, socket, func(uid uint32) error {
			asked <- uid
			return refusal.New(refusal.Unavailable, "no gate").WithHint("look")
		})
	}()
	c := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket.Path())
	}}}
	for _, call := range []struct{ method, path, body string }{
		{"GET", "/v1/status", ""}, {"GET", "/v1/events", ""}, {"POST", "/v1/jobs", "{"}, {"DELETE", "/nonsense?a=b&a=c", ""}, {"GET", "/v1/members/agents", ""},
		{"PUT", "/v1/desired/web", strings.Repeat("x", MaxDesired+1)}, {"GET", "/v1//status", ""}, {"OPTIONS", "/", ""},
	} {
		r := must.Get(http.NewRequestWithContext(t.Context(), call.method, "http://gated"+call.path, strings.NewReader(call.body)))(t)
		r.Header.Set(api.TokenHeader, "no token!")
		resp, err := c.Do(r)
		require.NoError(t, err, call)
		b := must.Get(io.ReadAll(resp.Body))(t)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, http.StatusServiceUnavailable, resp.StatusCode, call)
		require.Equal(t, api.ProblemType, resp.Header.Get("Content-Type"))
		require.True(t, resp.Close, "the next call is for the next daemon")
		var p api.Problem
		require.NoError(t, api.DecodeAnswer(b, &p))
		require.Equal(t, [2]string{"no gate", "look"}, [2]string{p.Detail, p.Hint})
		require.Equal(t, uint32(os.Geteuid()), <-asked)
	}
	silent := must.Get(net.Dial("unix", socket.Path()))(t)
	half := must.Get(net.Dial("unix", socket.Path()))(t)
	_, err := io.WriteString(half, "GET /v1/status HTTP/1.1\r\nHost: ")
	require.NoError(t, err)
	cancel()
	require.NoError(t, <-ended)
	for _, conn := range []net.Conn{silent, half} {
		_, err := conn.Read(make([]byte, 1))
		require.Error(t, err, "no answer, and the connection is closed")
		require.NoError(t, conn.Close())
	}
	require.Empty(t, asked)
}
