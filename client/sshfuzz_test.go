package client

import (
	"bytes"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

// said is a connection at the other end of which somebody says this, whatever
// is asked.
type saidConn struct {
	net.Conn
	io.Reader
}

func (s saidConn) Read(b []byte) (int, error)  { return s.Reader.Read(b) }
func (s saidConn) Write(b []byte) (int, error) { return len(b), nil }

// FuzzProbe: what ssh hands on is taken for a gate only where it is one answer
// and nothing beside it, and of a flood no more than a bound is read.
func FuzzProbe(f *testing.F) {
	f.Add([]byte("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"))
	f.Add([]byte("Welcome!\nHTTP/1.1 200 OK\r\n\r\n"))
	f.Add([]byte("HTTP/1.1 200 OK\r\n\r\nmotd"))
	f.Add([]byte("HTTP/1.1 100 Continue\r\n\r\n"))
	f.Add([]byte("HTTP/8.1 100 Continue\r\n\r\n"))
	f.Add(bytes.Repeat([]byte("x"), 100_000))
	f.Fuzz(func(t *testing.T, b []byte) {
		in := bytes.NewReader(b)
		if err := (&sshConn{Conn: saidConn{Reader: in}}).probe(); err == nil {
			require.True(t, bytes.HasPrefix(b, []byte("HTTP/1.")), "%q is a gate", b)
		}
		require.LessOrEqual(t, int64(len(b)-in.Len()), int64(maxProbe)+4096)
	})
}

// FuzzSaid: what ssh says, and what the other host makes it say, is kept within
// a bound and shown as lines that no terminal obeys.
func FuzzSaid(f *testing.F) {
	f.Add("@@@@@@\n@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\r\n", "Permission denied (publickey).\r\n")
	f.Add("\x1b]0;x\x07\x1b[2J", "\u202eevil")
	f.Add(strings.Repeat("x", maxSaid), "\xff\n\n")
	f.Fuzz(func(t *testing.T, first, second string) {
		var said lastSaid
		for _, s := range []string{first, second} {
			n := must.Get(said.Write([]byte(s)))(t)
			require.Equal(t, len(s), n)
		}
		require.LessOrEqual(t, len(said.b), maxSaid)
		require.True(t, strings.HasSuffix(first+second, string(said.b)))
		for _, line := range said.lines() {
			require.NoError(t, op.CheckText("a line", line))
		}
	})
}

// FuzzAddress: an address has one form, which is one field of known_gates.
func FuzzAddress(f *testing.F) {
	for _, s := range []string{"/run/gated/gated.sock", "unix:/run/a%20b", "unix:/run/a%2f", "unix:run", "ssh://ops@pve1:22/run/gated.sock", "unix:/%", "/run/\n\x00é", "ssh://-oProxyCommand=x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		a, err := ParseAddress(text)
		if err != nil {
			require.Equal(t, refusal.Malformed, refusal.CodeOf(err), "%v", err)
			return
		}
		require.Equal(t, a, must.Get(ParseAddress(string(a)))(t))
		require.NotEmpty(t, a)
		require.Len(t, strings.Fields(string(a)), 1)
		require.NoError(t, op.CheckText("an address", string(a)))
	})
}
