package access

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/test/must"
)

// soon is how long a client has for a body in these tests, late how long for an answer, and patience how long they wait for
// its end. late bounds the handshake of TLS too.
const (
	soon     = 200 * time.Millisecond
	late     = 2 * time.Second
	patience = 20 * time.Second
)

// slow waits for a client's body and for a client that reads, each for a short time. A header may take long, because the
// machine may be busy.
var slow = waits{header: patience, body: soon, write: late, idle: patience}

// hasty is a wall that waits only so long for a client.
func hasty(t *testing.T, w waits, next http.HandlerFunc, cert *Certificate) (addr string) {
	t.Helper()
	origin := local
	if cert != nil {
		origin = team
	}
	l := must.Get(New(Config{Origins: []string{origin}, Now: time.Now}))(t)
	l.waits = w
	l.Open("/")
	addr, _ = serving(t, l, next, cert)
	return addr
}

// The server itself would read a body that a page leaves, without an end. Each such connection would keep one of the places.
func TestABodyThatNeverComes(t *testing.T) {
	addr := hasty(t, slow, func(rw http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(rw, "in") }, nil)
	for name, request := range map[string]string{
		"a page is asked for":       "GET / HTTP/1.1\r\nHost: localhost:7480\r\nContent-Length: 100\r\n\r\n",
		"in parts":                  "GET / HTTP/1.1\r\nHost: localhost:7480\r\nTransfer-Encoding: chunked\r\n\r\n",
		"of another Host":           "GET / HTTP/1.1\r\nHost: evil.example.com\r\nContent-Length: 100\r\n\r\n",
		"with another method":       "PUT / HTTP/1.1\r\nHost: localhost:7480\r\nContent-Length: 100\r\n\r\n",
		"a form of another site":    "POST / HTTP/1.1\r\nHost: localhost:7480\r\nOrigin: https://evil.example.com\r\nContent-Length: 100\r\n\r\n",
		"a form":                    "POST / HTTP/1.1\r\nHost: localhost:7480\r\nOrigin: " + local + "\r\nContent-Length: 100\r\n\r\nhalf",
		"where a session is needed": "POST /x HTTP/1.1\r\nHost: localhost:7480\r\nOrigin: " + local + "\r\nContent-Length: 100\r\n\r\nhalf",
	} {
		c := must.Get(net.Dial("tcp", addr))(t)
		must.Get(io.WriteString(c, request))(t)
		require.NoError(t, c.SetReadDeadline(time.Now().Add(patience)))
		_, err := io.Copy(io.Discard, c)
		require.NoError(t, err, "%s: the connection did not end", name)
		require.NoError(t, c.Close())
	}
}

// A client that asks for much and reads nothing gives its place back.
func TestAnAnswerThatNobodyReads(t *testing.T) {
	dir := t.TempDir()
	pair(t, dir, "x")
	cert := must.Get(certificateIn(dir, time.Now))(t)
	for name, cert := range map[string]*Certificate{"plain": nil, "TLS": cert} {
		ended := make(chan struct{})
		addr := hasty(t, slow, func(rw http.ResponseWriter, _ *http.Request) {
			defer close(ended)
			_, _ = io.WriteString(rw, strings.Repeat("x", 20<<20))
		}, cert)
		var c net.Conn
		if cert == nil {
			c = must.Get(net.Dial("tcp", addr))(t)
			must.Get(fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: localhost:7480\r\n\r\n"))(t)
		} else {
			c = must.Get(tls.Dial("tcp", addr, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}}))(t)
			must.Get(fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: console.example.com\r\n\r\n"))(t)
		}
		select {
		case <-ended:
		case <-time.After(patience):
			t.Error(name + ": it still waits for its reader")
		}
		require.NoError(t, c.Close())
	}
}

// Over HTTP/2 a client says how much may be sent, and can say nothing.
func TestAStreamOfHTTP2ThatNobodyReads(t *testing.T) {
	dir := t.TempDir()
	pair(t, dir, "x")
	ended := make(chan struct{})
	addr := hasty(t, slow, func(rw http.ResponseWriter, r *http.Request) {
		defer close(ended)
		if r.ProtoMajor != 2 {
			t.Error("it is not HTTP/2")
		}
		_, _ = io.WriteString(rw, strings.Repeat("x", 20<<20))
	}, must.Get(certificateIn(dir, time.Now))(t))
	resp, err := overHTTP2(t, addr).Get(team + "/")
	if err == nil {
		defer resp.Body.Close()
	} else {
		// On a busy machine the time can be over before the first byte is sent.
		require.ErrorContains(t, err, "INTERNAL_ERROR")
	}
	select {
	case <-ended:
	case <-time.After(patience):
		t.Error("it still waits for its reader")
	}
}

// What takes long to be made, as an answer that waits for an operator, is not cut short: the time counts for each write.
func TestAnAnswerThatTakesLong(t *testing.T) {
	addr := hasty(t, waits{header: patience, body: patience, write: late, idle: patience}, func(rw http.ResponseWriter, r *http.Request) {
		for range 3 {
			<-time.After(late / 2)
			_, _ = io.WriteString(rw, "x")
			_ = http.NewResponseController(rw).Flush()
		}
	}, nil)
	c := must.Get(net.Dial("tcp", addr))(t)
	defer c.Close()
	must.Get(fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: localhost:7480\r\nConnection: close\r\n\r\n"))(t)
	resp := must.Get(http.ReadResponse(bufio.NewReader(c), nil))(t)
	require.Equal(t, "xxx", text(t, resp))
}

// Who has no session sends less: whoever asks may send it.
func TestBodiesBeforeASession(t *testing.T) {
	h := console(t, Limits{})
	for size, status := range map[int]int{maxBodyBefore: http.StatusOK, maxBodyBefore + 1: http.StatusRequestEntityTooLarge} {
		resp := h.ask(http.MethodPost, "/sign-in "+strings.Repeat("x", size), "")
		require.Equal(t, status, resp.StatusCode)
	}
	reached := h.reached
	resp := h.ask(http.MethodPost, "/g "+strings.Repeat("x", maxBody+1), "")
	require.Equal(t, http.StatusUnauthorized, resp.StatusCode, "a body for which a session is needed is not read")
	require.Equal(t, reached, h.reached)
}

// A stream of events has no end. Over HTTP/2 it takes the bound of a whole answer away.
func TestAStreamOfHTTP2ThatTakesLong(t *testing.T) {
	dir := t.TempDir()
	pair(t, dir, "x")
	addr := hasty(t, slow, func(rw http.ResponseWriter, r *http.Request) {
		c := http.NewResponseController(rw)
		if r.ProtoMajor != 2 || c.SetWriteDeadline(time.Time{}) != nil {
			t.Error("it is not HTTP/2")
		}
		for range 3 {
			<-time.After(late / 2)
			_, _ = io.WriteString(rw, "x")
			_ = c.Flush()
		}
	}, must.Get(certificateIn(dir, time.Now))(t))
	resp := must.Get(overHTTP2(t, addr).Get(team + "/"))(t)
	defer resp.Body.Close()
	require.Equal(t, "xxx", text(t, resp))
}

// overHTTP2 is a client that speaks HTTP/2 with what listens there.
func overHTTP2(t *testing.T, addr string) *http.Client {
	tr := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", addr)
		}}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}
