package server

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/test/must"
)

// Anybody in the network can connect and show no certificate. Members whose connections made a call keep theirs, and a new
// one finds a place.
func TestStrangersKeepNoMemberOut(t *testing.T) {
	few := newFewConns(must.Get(net.Listen("tcp", "127.0.0.1:0"))(t), 3, 2)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	require.NoError(t, s.Listener.Close())
	s.Listener = few
	newUnread().watch(s.Config, few.called)
	s.StartTLS()
	defer s.Close()
	call := func() (again bool) {
		trace := &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) { again = i.Reused }}
		r := must.Get(http.NewRequestWithContext(httptrace.WithClientTrace(t.Context(), trace), "GET", s.URL, http.NoBody))(t)
		resp := must.Get(s.Client().Do(r))(t)
		must.Get(io.Copy(io.Discard, resp.Body))(t)
		require.NoError(t, resp.Body.Close())
		return again
	}
	crowd := func() {
		var all []net.Conn
		for range 20 {
			all = append(all, must.Get(net.Dial("tcp", few.Addr().String()))(t))
		}
		for _, conn := range all[:18] { // the two newest stay
			_, err := conn.Read(make([]byte, 1))
			require.Error(t, err)
			require.NoError(t, conn.Close())
		}
		t.Cleanup(func() { _, _ = all[18].Close(), all[19].Close() })
	}
	crowd()
	require.False(t, call(), "a new connection has a place")
	crowd()
	require.True(t, call(), "a connection with a call stays")
}
