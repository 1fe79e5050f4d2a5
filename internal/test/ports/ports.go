// Package ports hands out TCP ports of the loopback address to tests whose program is told its port before it listens.
package ports

import (
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
)

// The ports are below those that Linux gives to whoever names none (net.ipv4.ip_local_port_range), so no other connection
// takes one in the meantime.
const (
	lowest  = 20000
	highest = 29999
)

// Free returns a port on which no program listens. No other call, in whatever process, returns it before the test ends:
// until then this process has an abstract unix socket of that name (unix(7)), and the kernel lets nobody else have one.
func Free(t testing.TB) int {
	t.Helper()
	const all = highest - lowest + 1
	first := rand.IntN(all)
	for n := range all {
		port := lowest + (first+n)%all
		mine, err := net.Listen("unix", fmt.Sprintf("@gated-test-port-%d", port))
		if err != nil {
			continue // another test has it
		}
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			_ = mine.Close()
			continue
		}
		t.Cleanup(func() { _ = mine.Close() })
		_ = l.Close()
		return port
	}
	t.Fatal("no free port")
	return 0
}
