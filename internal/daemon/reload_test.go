package daemon_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/api"
	"gated/internal/op"
)

// hup has the daemon of this process read its settings again, and waits until
// it has said how that went.
func (w *world) hup() {
	w.t.Helper()
	from := len(w.log.String())
	require.NoError(w.t, syscall.Kill(os.Getpid(), syscall.SIGHUP))
	w.log.await(w.t, from, "reload")
}

func TestReload(t *testing.T) {
	w := newWorld(t)
	w.init()
	w.serve()
	id := w.waiting("web")
	signers := filepath.Join(w.state, "allowed_signers")
	whole := read(t, signers)

	// A good file takes over: alice's key is for nothing any more.
	require.NoError(t, os.WriteFile(signers, []byte("# nobody\n"), 0o600))
	w.hup()
	require.True(t, w.health("settings").OK)
	require.ErrorIs(t, w.approve(id), op.UnknownSigner)

	// A broken one keeps what was in force, and shows.
	require.NoError(t, os.WriteFile(signers, []byte(whole+"nonsense\n"), 0o600))
	w.hup()
	h := w.health("settings")
	require.False(t, h.OK)
	require.Contains(t, h.Detail, signers)
	require.Contains(t, h.Detail, "line ")
	require.ErrorIs(t, w.approve(id), op.UnknownSigner)

	// So does a broken configuration beside a good trust file: both or neither.
	require.NoError(t, os.WriteFile(signers, []byte(whole), 0o600))
	conf := filepath.Join(w.state, "gated.yaml")
	good := read(t, conf)
	require.NoError(t, os.WriteFile(conf, []byte(good+"nonsense: 1\n"), 0o600))
	w.hup()
	require.Contains(t, w.health("settings").Detail, conf+":")
	require.ErrorIs(t, w.approve(id), op.UnknownSigner)

	require.NoError(t, os.WriteFile(conf, []byte("host: pve2\nsingle_user: true\n"), 0o600))
	w.hup()
	require.Contains(t, w.health("settings").Detail, "pve2")

	// What is fixed at the start is named, the rest is taken over.
	require.NoError(t, os.WriteFile(conf, []byte(good+"limits:\n  workers: 2\npolicy:\n  max_validity: 1h\n"), 0o600))
	w.hup()
	h = w.health("settings")
	require.True(t, h.OK)
	require.Contains(t, h.Detail, "limits")
	require.NoError(t, w.approve(w.anew(id)))
	w.await(id[:len(id)-2])
	w.halt()
	w.sound()
}

// anew waits until a request was issued anew, by its event.
func (w *world) anew(id string) string {
	w.t.Helper()
	found := errors.New("found")
	require.ErrorIs(w.t, w.events(func(e api.Entry) error {
		if e.Kind == "reissued" && e.Step == id {
			return found
		}
		return nil
	}), found)
	return id
}

// TestReloadWhileItStops: signals that come at any time end nothing and race
// with nothing.
func TestReloadWhileItStops(t *testing.T) {
	w := newWorld(t)
	w.init()
	for range 5 {
		w.serve()
		for range 3 {
			require.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGHUP))
		}
		w.halt()
	}
	require.NotContains(t, w.log.String(), "level=ERROR")
	w.sound()
}
