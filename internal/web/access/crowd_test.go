package access

import (
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/test/must"
)

// A client that has its share of the places gets no further one, and leaves the others to others.
func TestConnectionsOfOneClient(t *testing.T) {
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	c := &crowd{most: 2, of: map[string]int{}}
	b := &bounded{Listener: l, places: make(chan struct{}, 10), closed: make(chan struct{}), crowd: c}
	dial := func() net.Conn { return must.Get(net.Dial("tcp", l.Addr().String()))(t) }
	first, second, third := dial(), dial(), dial()
	defer first.Close()
	defer second.Close()
	one := must.Get(b.Accept())(t)
	two := must.Get(b.Accept())(t)
	accepted := make(chan net.Conn, 1)
	go func() {
		c, _ := b.Accept() // which is nil if the listener was closed
		accepted <- c
	}()
	_, err := third.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
	require.NoError(t, third.Close())
	require.NoError(t, one.Close())
	fourth := dial()
	defer fourth.Close()
	four := <-accepted
	require.NotNil(t, four)
	require.Equal(t, fourth.LocalAddr().String(), four.RemoteAddr().String())
	require.NoError(t, two.Close())
	require.NoError(t, four.Close())
	require.Empty(t, c.of)
	require.Empty(t, b.places)
}

func TestHouseholds(t *testing.T) {
	require.Equal(t, household("2001:db8::1"), household("2001:db8::2"))
	require.NotEqual(t, household("2001:db8::1"), household("2001:db8:0:1::1"))
	require.Equal(t, household("192.0.2.1"), household("::ffff:192.0.2.1"))
	require.NotEqual(t, household("192.0.2.1"), household("192.0.2.2"))
}
