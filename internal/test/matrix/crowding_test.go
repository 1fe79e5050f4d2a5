package matrix_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/refusal"
	"gated/internal/host/server"
	"gated/internal/test/must"
)

// dropped is what becomes of a connection that the server gave up.
const dropped refusal.Code = "dropped"

// dialTo opens connections that end with the case.
func (w *world) dialTo(socket string, n int) []net.Conn {
	w.t.Helper()
	var out []net.Conn
	for range n {
		conn := must.Get(net.Dial("unix", socket))(w.t)
		w.cleanup(func() { _ = conn.Close() })
		require.NoError(w.t, conn.SetDeadline(time.Now().Add(time.Minute)))
		out = append(out, conn)
	}
	return out
}

// ended reports whether the server closed a connection without an answer.
func ended(conn net.Conn) error {
	if n, err := conn.Read(make([]byte, 1)); n == 0 && err != nil {
		return dropped
	}
	return nil
}

// served asserts that another process, of another uid where the test may, still
// gets its answer.
func (w *world) served(socket string) {
	w.t.Helper()
	require.NoError(w.t, problem(w.t, w.callAs(socket, "GET", "/v1/ops", "", "")))
	r := w.callAs(socket, "POST", "/v1/classify", `{"op":"guest.destroy","target":"guest/victim"}`, "application/json")
	require.NoError(w.t, problem(w.t, r))
	require.Contains(w.t, string(r), "destructive")
}

// crowding is a row in which connections ask nothing whole.
func crowding(id, what string, limits server.Limits, crowd func(w *world, socket string) error) attack {
	return attack{id: id, what: what, want: dropped, run: func(w *world) error {
		w.destroyRequest()
		socket := w.serveWithin(limits)
		w.armUnlogged("nothing whole was asked")
		err := crowd(w, socket)
		w.served(socket)
		return err
	}}
}

var cramped = server.Limits{Conns: 24, ConnsPerUID: 12}

var crowdingRows = []attack{
	crowding("H04a", "300 idle connections where 24 may be", cramped, func(w *world, socket string) error {
		conns := w.dialTo(socket, 300)
		w.served(socket)
		return ended(conns[0])
	}),
	crowding("H04b", "300 callers that each send half a request and wait", cramped, func(w *world, socket string) error {
		conns := w.dialTo(socket, 300)
		for _, c := range conns {
			_, _ = io.WriteString(c, "POST /v1/jobs HTTP/1.1\r\nHost: gated\r\nContent-Length: 1000000\r\n\r\n{")
		}
		w.served(socket)
		return ended(conns[0])
	}),
	crowding("H04c", "a header that never ends", server.Limits{Header: 5 * time.Second}, func(w *world, socket string) error {
		c := w.dialTo(socket, 1)[0]
		must.Get(io.WriteString(c, "GET /v1/status HTTP/1.1\r\nX: "))(w.t)
		return ended(c)
	}),
	{id: "H04d", what: "16 bodies of 1 MiB at once, each short of its last byte, where 2 MiB may be held", want: refusal.OverLimit, run: func(w *world) error {
		w.destroyRequest()
		socket := w.serveWithin(server.Limits{Bodies: 4 << 20, BodiesUID: 2 << 20})
		w.arm()
		refused := make(chan error, 16)
		var wg sync.WaitGroup
		conns := w.dialTo(socket, 16)
		for _, c := range conns {
			wg.Go(func() {
				_, _ = fmt.Fprintf(c, "POST /v1/classify HTTP/1.1\r\nHost: gated\r\nContent-Length: %d\r\n\r\n", server.MaxBody)
				_, _ = io.WriteString(c, strings.Repeat(" ", server.MaxBody-1))
				if answer, err := http.ReadResponse(bufio.NewReader(c), nil); err == nil {
					b, _ := io.ReadAll(answer.Body)
					refused <- problem(w.t, b)
				}
			})
		}
		var last error
		for range 13 { // the 2 MiB are two bodies, and one whose end was refused
			last = <-refused
			require.ErrorIs(w.t, last, refusal.OverLimit)
		}
		w.served(socket)
		for _, c := range conns {
			_ = c.Close()
		}
		wg.Wait()
		return last
	}},
	{id: "H04e", what: "a body of a byte more than 1 MiB, announced and not", want: refusal.Oversized, run: func(w *world) error {
		w.destroyRequest()
		socket := w.serveWithin(server.Limits{Body: time.Hour}) // the answer does not wait for the rest
		w.arm()
		body := strings.Repeat(" ", server.MaxBody+1)
		c := w.dialTo(socket, 1)[0]
		_, err := fmt.Fprintf(c, "POST /v1/ops HTTP/1.1\r\nHost: gated\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n", len(body))
		require.NoError(w.t, err)
		must.Get(io.WriteString(c, body[:server.MaxBody]))(w.t)
		_, _ = io.WriteString(c, body[server.MaxBody:]) // it may have been answered by now
		answer := must.Get(http.ReadResponse(bufio.NewReader(c), nil))(w.t)
		b := must.Get(io.ReadAll(answer.Body))(w.t)
		require.ErrorIs(w.t, problem(w.t, b), refusal.Oversized)
		c = w.dialTo(socket, 1)[0]
		must.Get(fmt.Fprintf(c, "POST /v1/ops HTTP/1.1\r\nHost: gated\r\nContent-Length: %d\r\n\r\n", len(body)))(w.t)
		answer = must.Get(http.ReadResponse(bufio.NewReader(c), nil))(w.t, "it is refused before it is sent")
		b = must.Get(io.ReadAll(answer.Body))(w.t)
		w.served(socket)
		return problem(w.t, b)
	}},
}
