package server

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A caller that is connected when the daemon begins to stop gets an answer, although its call comes only then.
func TestAConnectedCallerIsAnsweredByAServerThatStops(t *testing.T) {
	w := start(t, -1, nil)
	conn := w.dial(t)
	require.Equal(t, 200, w.do(t, "GET", "/v1/status", "").status, "the server accepts in turn: it has the connection before")
	w.stop()
	require.Eventually(t, func() bool {
		late, err := net.Dial("unix", w.path)
		if err == nil {
			_ = late.Close()
		}
		return err != nil
	}, time.Minute, time.Millisecond, "it listens no more")
	_, err := io.WriteString(conn, "GET /v1/status HTTP/1.1\r\nHost: x\r\n\r\n")
	require.NoError(t, err)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, resp.StatusCode)
	require.NoError(t, resp.Body.Close())
}

// A caller that says nothing holds a daemon that stops until the wait is over, and not until its connection is older.
func TestASilentCallerDoesNotKeepAServer(t *testing.T) {
	here, there := net.Pipe()
	require.NoError(t, there.SetReadDeadline(time.Unix(1, 0))) // an open connection would time out at once
	u := newUnread()
	u.conns[here] = struct{}{}
	over, end := context.WithCancel(t.Context())
	end()
	u.wait(over)
	_, err := there.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)

	w := start(t, -1, nil)
	conn := w.dial(t)
	require.Equal(t, 200, w.do(t, "GET", "/v1/status", "").status)
	w.stop()
	_, err = conn.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
	require.NoError(t, <-w.ended)
	w.ended <- nil // for the cleanup
}

// A server of members' calls ends, although as many connections as it takes are open.
func TestAFullListenerCloses(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	few := newFewConns(l, 1, 1)
	conn, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close()) }()
	took, err := few.Accept()
	require.NoError(t, err)
	defer func() { require.NoError(t, took.Close()) }()
	few.known(took) // else it goes for the next one
	next, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	defer func() { require.NoError(t, next.Close()) }()
	ended := make(chan error, 1)
	go func() {
		_, err := few.Accept()
		ended <- err
	}()
	require.NoError(t, few.Close())
	require.ErrorIs(t, <-ended, net.ErrClosed)
	require.NoError(t, few.Close(), "net/http closes it, too, perhaps before the server does")
}
