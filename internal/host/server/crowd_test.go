package server

import (
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// dial opens a bare connection that is closed with the test.
func (w *world) dial(t *testing.T) net.Conn {
	t.Helper()
	c, err := net.Dial("unix", w.path)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() }) // it may be closed already
	return c
}

func (w *world) conns() int {
	w.server.crowd.mu.Lock()
	defer w.server.crowd.mu.Unlock()
	return w.server.crowd.total
}

// inBodies is how much memory bodies have.
func (w *world) inBodies() int64 {
	w.server.bodies.mu.Lock()
	defer w.server.bodies.mu.Unlock()
	return w.server.bodies.used
}

// H04: 10,000 idle and trickling connections of another process of the same uid,
// and bodies of 1 MiB that do not end. Their number and the memory for them stay
// bounded, and every call is answered.
func TestH04IdleConnections(t *testing.T) {
	w := start(t, -1, func(c *Config) { c.Limits.Conns, c.Limits.ConnsPerUID, c.Limits.BodiesUID = 128, 64, 32<<20 })
	flood := exec.Command("/proc/self/exe")
	flood.Env = []string{"GATED_TEST_FLOOD=" + w.path}
	said, err := flood.StdoutPipe()
	require.NoError(t, err)
	stdin, err := flood.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, flood.Start())
	defer func() {
		require.NoError(t, stdin.Close())
		require.NoError(t, flood.Wait())
	}()
	answered := 0
	done := make(chan struct{})
	go func() { defer close(done); _, _ = said.Read(make([]byte, 1)) }()
	for flooding := true; flooding; answered++ {
		select {
		case <-done:
			flooding = false
		default:
		}
		w.http.CloseIdleConnections() // each call has to get in anew
		require.Equal(t, 200, w.do(t, "GET", "/v1/status", "").status)
		require.LessOrEqual(t, w.conns(), 64)
		require.LessOrEqual(t, w.inBodies(), int64(32<<20))
	}
	t.Logf("%d calls were answered", answered)
}

// floodWith opens 10,000 connections, and keeps those that were opened last: most
// of them idle, the others in the middle of a header, or at the first or the last
// byte of a body of 1 MiB.
func floodWith(path string) int {
	const all, kept = 10_000, 1000
	large := "POST /v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Length: 1048576\r\n\r\n"
	almost := large + strings.Repeat(" ", 1<<20-1)
	var held []net.Conn
	for i := range all {
		c, err := net.Dial("unix", path)
		if err != nil {
			continue // the queue was full
		}
		switch i % 60 {
		case 0, 10, 20, 30, 40:
			_, _ = io.WriteString(c, "GET /v1/status HTT")
		case 1, 11, 21, 31, 41:
			_, _ = io.WriteString(c, large+"{")
		case 2:
			_ = c.SetWriteDeadline(time.Now().Add(time.Second)) // it may have been closed, or not be read
			_, _ = io.WriteString(c, almost)
		}
		if held = append(held, c); len(held) > kept {
			_ = held[0].Close()
			held = held[1:]
		}
	}
	_, _ = os.Stdout.WriteString("!")
	_, _ = io.Copy(io.Discard, os.Stdin)
	for _, c := range held {
		_ = c.Close()
	}
	return 0
}

func TestSlowHeaderIsCutOff(t *testing.T) {
	w := start(t, -1, func(c *Config) { c.Limits.Header = time.Second })
	conn := w.dial(t)
	_, err := io.WriteString(conn, "GET /v1/sta")
	require.NoError(t, err)
	b, err := io.ReadAll(conn)
	require.NoError(t, err)
	require.NotContains(t, string(b), "200 OK")
	require.Equal(t, 200, w.do(t, "GET", "/v1/status", "").status)
}

// A connection whose request is being answered is not given up for another.
func TestABusyConnectionStays(t *testing.T) {
	w := start(t, -1, func(c *Config) { c.Limits.Conns, c.Limits.ConnsPerUID = 4, 2 })
	hold := w.holdStatus()
	answers := make(chan string, 2)
	for range 2 {
		conn := w.dial(t)
		go func() {
			_, _ = io.WriteString(conn, "GET /v1/status HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
			b, _ := io.ReadAll(conn)
			answers <- string(b)
		}()
		<-hold.Held
	}
	third := w.dial(t)
	b, err := io.ReadAll(third)
	require.NoError(t, err)
	require.Empty(t, b, "there is no place: closed at once")
	hold.End()
	for range 2 {
		require.True(t, strings.HasPrefix(<-answers, "HTTP/1.1 200 "))
	}
}

func TestTheLargestCrowdLosesItsOldest(t *testing.T) {
	c := &crowd{all: 4, perUID: 3}
	join := func(uid uint32, pid int32) (*peer, *peer, bool) {
		p := &peer{uid: uid, pid: pid, crowd: c}
		victim, ok := c.join(p)
		return p, victim, ok
	}
	mine, victim, ok := join(1, 10)
	require.True(t, ok)
	require.Nil(t, victim)
	flood1, _, _ := join(1, 20)
	flood2, victim, ok := join(1, 20)
	require.True(t, ok)
	require.Nil(t, victim)
	flood3, victim, ok := join(1, 20) // one too many of uid 1
	require.True(t, ok)
	require.Same(t, flood1, victim, "the oldest of the process with the most, not the oldest of all")
	require.False(t, flood1.begin())
	require.True(t, flood2.begin())
	_, victim, _ = join(1, 20)
	require.Same(t, flood3, victim, "busy ones stay")
	flood2.end()

	_, victim, ok = join(2, 30)
	require.True(t, ok)
	require.Nil(t, victim)
	other, victim, ok := join(2, 31) // one too many of all
	require.True(t, ok)
	require.Same(t, flood2, victim, "the uid with the most loses")
	require.True(t, mine.begin())
	c.leave(other)
	c.leave(other)
	require.Equal(t, 3, c.total)
}

func TestCrowdIsAlwaysBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := &crowd{all: rapid.IntRange(1, 8).Draw(t, "all"), perUID: rapid.IntRange(1, 8).Draw(t, "perUID")}
		var in []*peer
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			if len(in) > 0 && rapid.IntRange(0, 2).Draw(t, "what") == 0 {
				p := rapid.SampledFrom(in).Draw(t, "peer")
				if rapid.Bool().Draw(t, "leaves") {
					c.leave(p)
				} else {
					p.begin()
				}
				continue
			}
			p := &peer{uid: rapid.Uint32Range(1, 3).Draw(t, "uid"), pid: rapid.Int32Range(1, 3).Draw(t, "pid"), crowd: c}
			victim, ok := c.join(p)
			if victim != nil && (victim.busy || victim.in || !ok) {
				t.Fatal("a busy connection was given up, or one for nothing")
			}
			in = append(in, p)
			checkCrowd(t, c)
		}
	})
}

func checkCrowd(t *rapid.T, c *crowd) {
	sum := 0
	for uid, peers := range c.peers {
		if len(peers) == 0 || len(peers) > c.perUID {
			t.Fatalf("uid %d has %d connections", uid, len(peers))
		}
		sum += len(peers)
	}
	if sum != c.total || sum > c.all {
		t.Fatalf("%d connections, counted %d, of %d", sum, c.total, c.all)
	}
}
