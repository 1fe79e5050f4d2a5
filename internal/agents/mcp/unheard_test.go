package mcp

import (
	"io"
	"net"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/client"
	"gated/client/api"
	"gated/internal/test/must"
)

// A connection that breaks says nothing of the call. A daemon that cannot start, and answers the repeated call, says nothing of it
// either: the agent is told to look.
func TestAJobThatMayHaveBeenAccepted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l := must.Get(net.Listen("unix", path))(t)
	calls := 0
	gate := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if calls++; calls == 1 {
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("Content-Type", api.ProblemType)
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, `{"code":"unavailable","detail":"the daemon cannot start: x"}`)
	})}
	ended := make(chan error, 1)
	go func() { ended <- gate.Serve(l) }()
	t.Cleanup(func() {
		require.NoError(t, gate.Close())
		require.ErrorIs(t, <-ended, http.ErrServerClosed)
	})
	c := must.Get(client.New(client.Options{Socket: path, Getenv: func(string) string { return "" }}))(t)
	t.Cleanup(c.Close)
	_, err := (&toolset{Options: Options{Client: c}}).submit(t.Context(), call{key: "k"}, submitIn{Op: "guest.start", Target: "web"})
	require.Equal(t, 2, calls)
	require.Contains(t, problemOf(err).Hint, "the call may have had its effect")
}
