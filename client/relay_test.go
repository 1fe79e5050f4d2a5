package client

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// dialed does what gated dial does, for a test binary that stands in for it.
func dialed(socket string) int {
	err := Relay(context.Background(), Options{Socket: socket}, os.Stdin, os.Stdout)
	var gone *Unreachable
	switch {
	case errors.As(err, &gone):
		_, _ = os.Stderr.WriteString(err.Error() + "\n")
		return gone.CommandExit()
	case err != nil:
		_, _ = os.Stderr.WriteString(err.Error() + "\n")
		return 5
	}
	return 0
}

// accepted serves one connection at path.
func accepted(t *testing.T, path string, serve func(*net.UnixConn)) {
	t.Helper()
	l := listen(t, path)
	done := make(chan struct{})
	go func() {
		defer close(done)
		conn, err := l.AcceptUnix()
		if err != nil {
			return
		}
		serve(conn)
		_ = conn.Close()
	}()
	t.Cleanup(func() { <-done })
}

// The end of what is said is passed on, and what is answered to it arrives.
func TestRelayHalfCloses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	accepted(t, path, func(conn *net.UnixConn) {
		all, err := io.ReadAll(conn) // until the other side ends
		if err == nil {
			_, _ = conn.Write(append([]byte("heard "), all...))
		}
	})
	said := bytes.Repeat([]byte("x"), 1<<20)
	var out bytes.Buffer
	require.NoError(t, Relay(t.Context(), Options{Socket: path, Getenv: env{}.get}, bytes.NewReader(said), &out))
	require.Equal(t, "heard "+string(said), out.String())
}

// The gate's end is the end, whether or not there is more to say.
func TestRelayEndsWithTheGate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	accepted(t, path, func(conn *net.UnixConn) { _, _ = conn.Write([]byte("bye")) })
	in, more := io.Pipe()
	defer func() { _ = more.Close() }()
	var out bytes.Buffer
	require.NoError(t, Relay(t.Context(), Options{Socket: path, Getenv: env{}.get}, in, &out))
	require.Equal(t, "bye", out.String())
}

func TestRelayEndsWithItsContext(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	ctx, cancel := context.WithCancel(t.Context())
	accepted(t, path, func(conn *net.UnixConn) {
		cancel()
		_, _ = conn.Read(make([]byte, 1)) // until it is gone
	})
	in, more := io.Pipe()
	defer func() { _ = more.Close() }()
	require.ErrorIs(t, Relay(ctx, Options{Socket: path, Getenv: env{}.get}, in, io.Discard), context.Canceled)
}

func TestRelayToNobody(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	gone := unreachable(t, Relay(t.Context(), Options{Socket: path, Getenv: env{}.get}, bytes.NewReader(nil), io.Discard))
	require.Equal(t, []string{path}, tried(gone))
}

func TestRelayThatNobodyHears(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	accepted(t, path, func(conn *net.UnixConn) { _, _ = conn.Write([]byte("x")) })
	full := errors.New("disk full")
	require.ErrorIs(t, Relay(t.Context(), Options{Socket: path, Getenv: env{}.get}, bytes.NewReader(nil), failing{full}), full)
}
