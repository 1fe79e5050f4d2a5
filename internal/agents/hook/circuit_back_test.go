package hook

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/test/must"
)

// listen makes a socket as a daemon does that starts: a new one in the place of
// what is there.
func listen(t *testing.T, path string) {
	t.Helper()
	_ = os.Remove(path) // of the one before, if there was one
	l := must.Get(net.Listen("unix", path))(t)
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	t.Cleanup(func() { _ = l.Close() })
}

func TestADaemonThatIsBackIsAskedAtOnce(t *testing.T) {
	g := newGate(t)
	socket := filepath.Join(t.TempDir(), "s")
	g.home = g.home.Watching(socket, filepath.Join(t.TempDir(), "other"))
	trip := func() {
		g.err = errAway
		for range tripAt {
			require.Equal(t, KindUnreachable, g.ask(t))
		}
		require.Equal(t, KindOpen, g.ask(t))
		require.True(t, g.home.Status(g.now, 0).Open)
	}
	for _, back := range []string{"the first one", "one in its place"} {
		trip()
		listen(t, socket)
		require.False(t, g.home.Status(g.now, 0).Open, back)
		asked := g.asked
		// It is there and not ready: one hook finds that out, and nobody after it.
		require.Equal(t, KindUnreachable, g.ask(t), back)
		require.Equal(t, KindOpen, g.ask(t), back)
		require.Equal(t, asked+1, g.asked)
		listen(t, socket)
		g.err = nil
		require.Empty(t, g.ask(t), back)
		require.Empty(t, g.ask(t), back)
		require.NoFileExists(t, filepath.Join(g.home.Dir(), g.home.circuitName()))
	}
	// One that goes away is no news that anybody would have to wait for.
	trip()
	require.NoError(t, os.Remove(socket))
	require.Equal(t, KindUnreachable, g.ask(t))
	require.Equal(t, KindOpen, g.ask(t))
	g.pass(openFor)
	g.err = nil
	require.Empty(t, g.ask(t), "and after its time it is asked as ever")
}

// TestADaemonThatComesWhileAHookFails: what counts is what was there before it
// asked.
func TestADaemonThatComesWhileAHookFails(t *testing.T) {
	g := newGate(t)
	socket := filepath.Join(t.TempDir(), "s")
	g.home = g.home.Watching(socket)
	g.err = errAway
	for range tripAt - 1 {
		g.ask(t)
	}
	guard := g.guard()
	guard.Check = func(context.Context, api.Check) (api.Checked, error) {
		listen(t, socket)
		return api.Checked{}, errAway
	}
	must.Err(guard.Ask(t.Context(), api.Check{}))(t)
	g.err = nil
	require.Empty(t, g.ask(t))
}

// TestOneTriesForAllWhenItIsBack: while that one has said nothing yet, the others
// do not wait.
func TestOneTriesForAllWhenItIsBack(t *testing.T) {
	g := newGate(t)
	socket := filepath.Join(t.TempDir(), "s")
	g.home = g.home.Watching(socket)
	g.err = errAway
	for range tripAt {
		g.ask(t)
	}
	listen(t, socket)
	g.err = nil
	ask, probe := g.home.enter(g.now, time.Second)
	require.True(t, ask)
	require.True(t, probe)
	require.Equal(t, KindOpen, g.ask(t))
	g.pass(time.Second + probeGrace)
	require.Empty(t, g.ask(t))
}
