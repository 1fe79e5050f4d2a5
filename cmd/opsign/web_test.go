package main

import (
	"bytes"
	"context"
	"net"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

func TestBothLoopbackAddresses(t *testing.T) {
	listeners, at, err := listenLocally(context.Background(), 0)
	require.NoError(t, err)
	for _, l := range listeners {
		a := l.Addr().(*net.TCPAddr)
		require.True(t, a.IP.IsLoopback())
		require.Equal(t, at, a.Port)
	}
	_, _, err = listenLocally(context.Background(), uint16(at))
	require.ErrorIs(t, err, refusal.Unavailable)
	for _, l := range listeners {
		require.NoError(t, l.Close())
	}
}

// Who listens on one of the addresses alone would get what a browser sends to localhost.
func TestNobodyElseListensAtLocalhost(t *testing.T) {
	six, err := net.Listen("tcp6", "[::1]:0")
	if err != nil {
		six = must.Get(net.Listen("tcp4", "127.0.0.1:0"))(t) // a machine without IPv6
	}
	defer six.Close()
	at := uint16(six.Addr().(*net.TCPAddr).Port)
	_, _, err = listenLocally(context.Background(), at)
	require.ErrorIs(t, err, refusal.Unavailable)
	four, err := net.Listen("tcp4", "127.0.0.1:"+strconv.Itoa(int(at)))
	if six.Addr().Network() == "tcp" && six.Addr().(*net.TCPAddr).IP.To4() == nil {
		require.NoError(t, err, "the other address is free again")
		require.NoError(t, four.Close())
	}
}

func TestNothingIsSaidDuringAQuestion(t *testing.T) {
	var shown bytes.Buffer
	a := &aside{to: &shown}
	must.Get(a.Write([]byte("before ")))(t)
	answered := a.ask()
	for range maxLater + 10 {
		must.Get(a.Write([]byte(".")))(t)
	}
	require.Equal(t, "before ", shown.String())
	answered()
	require.Equal(t, "before "+string(bytes.Repeat([]byte("."), maxLater)), shown.String())
	must.Get(a.Write([]byte(" after")))(t)
	require.Contains(t, shown.String(), " after")
}

// Without a terminal nobody is asked, so no page gets one.
func TestWebWithoutATerminal(t *testing.T) {
	tl := newTool()
	tl.stdin = nil
	_, err := tl.asker(false, keyFlags{})
	require.Equal(t, api.ExitUsage, api.Exit(err))
}
