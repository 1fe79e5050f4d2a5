package postgres

import (
	"io"
	"net"
	"strconv"
	"testing"

	"gated/internal/test/must"

	"github.com/stretchr/testify/require"
)

// peer is a server that tells what arrives at it, and answers each message with "yes".
func peer(t *testing.T) (port int, arrived <-chan string) {
	t.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { _ = l.Close() })
	got := make(chan string, 10)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = c.Close() }()
				buffer := make([]byte, 100)
				for {
					n, err := c.Read(buffer)
					if err != nil {
						return
					}
					got <- string(buffer[:n])
					_, _ = c.Write([]byte("yes"))
				}
			}()
		}
	}()
	return l.Addr().(*net.TCPAddr).Port, got
}

func say(t *testing.T, p *Proxy) net.Conn {
	t.Helper()
	c := must.Get(net.Dial("tcp", "127.0.0.1:"+strconv.Itoa(p.Port)))(t)
	t.Cleanup(func() { _ = c.Close() })
	must.Get(c.Write([]byte("question")))(t)
	return c
}

func answer(t *testing.T, c net.Conn) {
	t.Helper()
	b := make([]byte, 3)
	must.Get(io.ReadFull(c, b))(t)
	require.Equal(t, "yes", string(b))
}

func TestProxyPassesOn(t *testing.T) {
	port, arrived := peer(t)
	c := say(t, NewProxy(t, port))
	require.Equal(t, "question", <-arrived)
	answer(t, c)
}

func TestProxyDeafenedLosesAnswersAlone(t *testing.T) {
	port, arrived := peer(t)
	p := NewProxy(t, port)
	p.Deafen(true)
	c := say(t, p)
	require.Equal(t, "question", <-arrived)
	p.Cut()
	must.Fail(c.Read(make([]byte, 1)))(t, io.EOF)
}

func TestProxyHalvesWhatAClientSays(t *testing.T) {
	port, arrived := peer(t)
	p := NewProxy(t, port)
	p.Halve()
	c := say(t, p)
	require.Equal(t, "ques", <-arrived)
	rest, err := io.ReadAll(c)
	require.LessOrEqual(t, len(rest), len("yes"), err)
	answer(t, say(t, p)) // once
}

func TestProxyPartitionedDeliversLate(t *testing.T) {
	port, arrived := peer(t)
	p := NewProxy(t, port)
	p.Partition(true)
	c := say(t, p)
	require.Empty(t, arrived)
	p.Partition(false)
	require.Equal(t, "question", <-arrived)
	answer(t, c)
}
