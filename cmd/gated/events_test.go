package main

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/test/must"
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
	dir := must.Get(os.MkdirTemp("/tmp", "ge"))(t)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	path := filepath.Join(dir, "s")
	l := must.Get(net.Listen("unix", path))(t)
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
	require.Equal(t, "1 2026-01-02T03:04:05Z started\n", out.String())
}

// People read directories, and who had what before.
func TestEntriesOfReservations(t *testing.T) {
	out, asked := &lines{}, 0
	tl := testTool()
	tl.Stdout = out
	s := &entries{tool: tl, paths: map[string]string{}, scopes: func() ([]api.Scope, error) {
		asked++
		return []api.Scope{{ID: "s1", Place: api.Place{Path: "/src/a b"}}, {ID: "s2", Place: api.Place{Path: "/other"}}}, nil
	}}
	e := api.Entry{Seq: 7, Time: since, Kind: "transferred", By: "agent:builder#1", Target: "scope/s1", Reservation: "r1", Patterns: []string{"src/**"},
		Holder: "reviewer", Until: since.Add(time.Hour), For: []string{"reviewer", "builder"}}
	require.NoError(t, s.entry(e))
	require.Equal(t, "7 2026-01-02T03:04:05Z transferred agent:builder#1 scope/s1 /src/a b r1 src/** from builder to reviewer until 2026-01-02T04:04:05Z\n",
		out.String())
	out.text.Reset()
	e.Kind, e.Target, e.For = "reserved", "scope/s2", []string{"reviewer", "waits"}
	require.NoError(t, s.entry(e))
	require.Contains(t, out.String(), " scope/s2 /other r1 src/** of reviewer until ")
	require.Equal(t, 1, asked)
	e.Target = "scope/s9"
	require.NoError(t, s.entry(e))
	require.NoError(t, s.entry(e))
	require.Equal(t, 2, asked, "what is not there is looked for once")
	require.Contains(t, out.String(), " scope/s9 r1 ")
	s.scopes = func() ([]api.Scope, error) { return nil, errors.New("away") }
	e.Target = "scope/s10"
	require.NoError(t, s.entry(e), "an entry is worth more than a path")
}

func TestWhoHadWhatWasHandedOn(t *testing.T) {
	for want, e := range map[string]api.Entry{
		"builder":  {Kind: "transferred", By: "gate", Holder: "reviewer", For: []string{"reviewer", "builder"}},
		"uid:1000": {Kind: "transferred", By: "uid:1000", Holder: "reviewer", For: []string{"reviewer"}},
		"":         {Kind: "transferred", By: "gate", Holder: "reviewer", For: []string{"reviewer"}},
	} {
		require.Equal(t, want, giver(e))
	}
	require.Empty(t, giver(api.Entry{Kind: "released", Holder: "builder", For: []string{"builder", "reviewer"}}))
}
