package main

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// cancelling is a writer that ends a command at its first line.
type cancelling struct {
	bytes.Buffer
	cancel context.CancelFunc
}

func (c *cancelling) Write(b []byte) (int, error) {
	defer c.cancel()
	return c.Buffer.Write(b)
}

func TestFollowingEndsWellWhenItIsInterrupted(t *testing.T) {
	dir, err := os.MkdirTemp("/tmp", "ge")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	path := filepath.Join(dir, "s")
	l, err := net.Listen("unix", path)
	require.NoError(t, err)
	mux := http.NewServeMux()
	mux.HandleFunc("/v1/events", func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte("id: 1\ndata: {\"seq\":1,\"time\":\"2026-01-02T03:04:05Z\",\"kind\":\"started\"}\n\n"))
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	srv := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	go func() { _ = srv.Serve(l) }()
	t.Cleanup(func() { require.NoError(t, srv.Close()) })

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	out := &cancelling{cancel: cancel}
	tl := testTool()
	tl.Stdout = out
	require.Zero(t, tl.run(ctx, []string{"events", "--follow", "--socket", path}))
	require.Equal(t, "1 2026-01-02 03:04:05Z started\n", out.String())
}
