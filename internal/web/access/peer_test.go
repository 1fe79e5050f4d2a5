package access

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/test/must"
)

const table = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1D38 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 1 1 0
   1: 0100007F:1D38 0100007F:C350 01 00000000:00000000 00:00000000 00000000  1000        0 2 1 0
   2: 0100007F:C350 0100007F:1D38 01 00000000:00000000 00:00000000 00000000  1001        0 3 1 0
   3: 00000000000000000000000001000000:C351 00000000000000000000000001000000:1D38 01 0:0 00:0 0  1002        0 4 1 0
   4: 0000000000000000FFFF00000100007F:C352 0000000000000000FFFF00000100007F:1D38 01 0:0 00:0 0  1003        0 5 1 0
   5: 0100007F:C354 0100007F:1D38 05 00000000:00000000 00:00000000 00000000     0        0 0 1 0
   6: 0100007F:C355 0100007F:1D38 06 00000000:00000000 03:00000000 00000000     0        0 0 3 0
`

func TestOwnerOfASocket(t *testing.T) {
	for peer, want := range map[string]uint32{"127.0.0.1:50000": 1001, "[::1]:50001": 1002, "127.0.0.1:50002": 1003} {
		at := netip.MustParseAddrPort(peer)
		uid, ok := findOwner(table, at, netip.AddrPortFrom(at.Addr(), 7480))
		require.True(t, ok, peer)
		require.Equal(t, want, uid)
	}
	for _, closed := range []string{"127.0.0.1:50004", "127.0.0.1:50005"} {
		_, ok := findOwner(table, netip.MustParseAddrPort(closed), netip.MustParseAddrPort("127.0.0.1:7480"))
		require.False(t, ok, "nobody has the socket any more, and that is not root")
	}
	_, ok := findOwner(table, netip.MustParseAddrPort("127.0.0.1:50003"), netip.MustParseAddrPort("127.0.0.1:7480"))
	require.False(t, ok)
	_, ok = findOwner(table, netip.MustParseAddrPort("127.0.0.1:50000"), netip.MustParseAddrPort("127.0.0.1:7481"))
	require.False(t, ok)
}

// A cookie that another user of the machine got to know opens nothing.
func TestConnectionsOfOthers(t *testing.T) {
	own := uint32(os.Geteuid())
	for name, c := range map[string]struct {
		uid    uint32
		known  bool
		err    error
		status int
	}{
		"this user":                  {own, true, nil, http.StatusOK},
		"root":                       {0, true, nil, http.StatusOK},
		"another user":               {own + 4711, true, nil, http.StatusForbidden},
		"of nobody":                  {0, false, nil, http.StatusForbidden},
		"one of too many":            {own, true, errors.New("too many open files"), http.StatusForbidden},
		"a system that says nothing": {0, false, errors.ErrUnsupported, http.StatusOK},
	} {
		w := must.Get(New(Config{Origins: []string{local}, Local: true, Now: time.Now}))(t)
		w.owner = func(net.Conn) (uint32, bool, error) { return c.uid, c.known, c.err }
		cookie, _ := w.sessions.add(Session{Local: true})
		addr, stop := serving(t, w, http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(rw, "in") }), nil)
		r := must.Get(http.NewRequestWithContext(context.Background(), http.MethodGet, "http://"+addr+"/", nil))(t)
		r.Host = "localhost:7480"
		r.AddCookie(&http.Cookie{Name: w.cookie, Value: cookie})
		resp := must.Get(http.DefaultClient.Do(r))(t)
		page := text(t, resp)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, c.status, resp.StatusCode, "%s: %s", name, page)
		require.Equal(t, c.status == http.StatusOK, page == "in", name)
		stop()
	}
}

func TestOwnConnections(t *testing.T) {
	for _, at := range []string{"127.0.0.1:0", "[::1]:0"} {
		l, err := net.Listen("tcp", at)
		if err != nil && at != "127.0.0.1:0" {
			continue // a machine without IPv6
		}
		require.NoError(t, err)
		c := must.Get(net.Dial("tcp", l.Addr().String()))(t)
		in := must.Get(l.Accept())(t)
		uid, known, err := peerOwner(in)
		if !errors.Is(err, errors.ErrUnsupported) {
			require.NoError(t, err)
			require.True(t, known)
			require.Equal(t, uint32(os.Geteuid()), uid)
		}
		require.NoError(t, errors.Join(c.Close(), in.Close(), l.Close()))
	}
}

func FuzzSocketTable(f *testing.F) {
	f.Add(table)
	f.Add("1: 0100007F:1D3 0100007F:C350 01 0:0 00:0 0 1")
	f.Fuzz(func(t *testing.T, text string) {
		peer, own := netip.MustParseAddrPort("127.0.0.1:50000"), netip.MustParseAddrPort("127.0.0.1:7480")
		if _, ok := findOwner(text, peer, own); ok {
			require.Contains(t, text, ":") // an address was there
		}
		if a, ok := parseSocket(text); ok {
			require.True(t, a.IsValid())
			require.Equal(t, a.Addr(), a.Addr().Unmap())
		}
	})
}
