package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/test/must"
	"gated/internal/test/postgres"
)

// line runs a command line in this process.
func line(t *testing.T, args ...string) (code int, out, said string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	tl := testTool()
	tl.Stdout, tl.Stderr = &stdout, &stderr
	code = tl.Run(t.Context(), tl.root(), args)
	return code, stdout.String(), stderr.String()
}

// A hub's database is made, gets a directory's documents, is served, and forgets a host. What goes wrong is a sentence.
func TestHubInPostgres(t *testing.T) {
	for _, args := range [][]string{{"hub"}, {"hub", "--dir", "d", "--postgres", "c"}, {"hub", "create"}, {"hub", "load", "--dir", "d"}, {"hub", "load", "--postgres", "c"},
		{"hub", "forget"}, {"hub", "forget", "pve1"}, {"hub", "--postgres", "c", "--cert", "c"}} {
		code, _, said := line(t, args...)
		require.Equal(t, api.ExitUsage, code, "%v %s", args, said)
	}
	c := postgres.Primary(t)
	dir := t.TempDir()
	write := func(host, text string) {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, host), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, host, "web.yaml"), []byte(text), 0o600))
	}
	load := []string{"hub", "load", "--dir", dir, "--postgres", c.DSN()}
	code, _, said := line(t, load...)
	require.Equal(t, api.ExitInternal, code)
	require.Contains(t, said, "unavailable: the hub's database has no tables of a hub\n  hint: gated hub create makes them")
	code, out, _ := line(t, "hub", "create", "--postgres", c.DSN())
	require.Equal(t, api.ExitDone, code)
	require.Equal(t, "the tables are there, in the schema gatedhub\n", out)

	write("pve1", "apiVersion: gated/v1\nhost: pve1\nguests: []\n")
	write("pve2", "apiVersion: gated/v1\nhost: pve2\nguests: []\n")
	code, out, said = line(t, load...)
	require.Equal(t, api.ExitDone, code, said)
	require.Equal(t, "2 hosts read, 2 changed\n", out)
	code, out, _ = line(t, append(load, "--json")...)
	require.Equal(t, api.ExitDone, code)
	require.Equal(t, `{"host":"pve1","changed":false,"error":null}`+"\n"+`{"host":"pve2","changed":false,"error":null}`+"\n", out)
	require.NoError(t, os.Symlink("/etc/passwd", filepath.Join(dir, "pve2", "odd.yaml")))
	code, out, said = line(t, load...)
	require.Equal(t, api.ExitRefused, code)
	require.Equal(t, "2 hosts read, 0 changed\n", out)
	require.Contains(t, said, "pve2: not_allowed: ")

	require.Equal(t, 200, served(t, c.DSN(), "/v1/hosts/pve2/desired"), "it keeps what it had")
	code, out, _ = line(t, "hub", "forget", "pve2", "--postgres", c.DSN())
	require.Equal(t, api.ExitDone, code)
	require.Equal(t, "forgot pve2\n", out)
	code, _, said = line(t, "hub", "forget", "pve2", "--postgres", c.DSN())
	require.Equal(t, api.ExitRefused, code)
	require.Contains(t, said, "unknown_target: the hub's database has nothing of the host")
	require.Equal(t, 404, served(t, c.DSN(), "/v1/hosts/pve2/desired"))
}

// served starts a hub, asks it for a path, and ends it.
func served(t *testing.T, dsn, path string) (status int) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	read, write := io.Pipe()
	tl := testTool()
	tl.Stdout = write
	ended := make(chan int, 1)
	go func() {
		ended <- tl.Run(ctx, tl.root(), []string{"hub", "--postgres", dsn, "--listen", "127.0.0.1:0"})
	}()
	said := make([]byte, 200)
	n := must.Get(read.Read(said))(t)
	url, rest, found := strings.Cut(strings.TrimPrefix(string(said[:n]), "listening on "), ",")
	require.True(t, found)
	require.Contains(t, rest, "from PostgreSQL")
	resp := must.Get(http.Get(url + path))(t)
	require.NoError(t, resp.Body.Close())
	stop()
	require.Equal(t, api.ExitDone, <-ended)
	return resp.StatusCode
}
