package daemon_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/client/api"
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
	w := newServing(t)
	id := w.waiting("web")
	conf := filepath.Join(w.state, "gated.yaml")
	good := read(t, conf)
	was := w.status().Policy
	require.Contains(t, w.health("settings").Detail, "policy "+was[:12]+" in force")

	// A broken configuration keeps what was in force, and shows.
	require.NoError(t, os.WriteFile(conf, []byte(good+"nonsense: 1\n"), 0o600))
	w.hup()
	require.Contains(t, w.health("settings").Detail, conf+":")

	require.NoError(t, os.WriteFile(conf, []byte("host: pve2\nsingle_user: true\n"), 0o600))
	w.hup()
	require.Contains(t, w.health("settings").Detail, "pve2")

	// What is fixed at the start is named, the rest is taken over.
	require.NoError(t, os.WriteFile(conf, []byte(good+"limits:\n  workers: 2\npolicy:\n  max_validity: 1h\n"), 0o600))
	w.hup()
	h := w.health("settings")
	require.True(t, h.OK)
	require.Contains(t, h.Detail, "limits")
	is := w.status().Policy
	require.NotEqual(t, was, is)
	require.Contains(t, fmt.Sprintf("%s", w.bodies(w.database())), fmt.Sprintf(`"0 keys revoked; policy %.12s in force, was %.12s"`, is, was))
	require.NoError(t, w.approve(w.anew(id)))
	w.await(id[:len(id)-2])
	w.haltSound()
}

// TestEditedSignersCountForNothing while the daemon runs, whether they would
// load or not.
func TestEditedSignersCountForNothing(t *testing.T) { // S15
	w := newServing(t)
	id := w.waiting("web")
	require.True(t, w.health("signers").OK)
	whole := read(t, w.signers())
	kept := w.signers() + ".edited"
	for _, text := range []string{"# nobody\n", whole + "nonsense\n", whole + "# a comment\n"} {
		require.NoError(t, os.WriteFile(w.signers(), []byte(text), 0o600))
		w.hup()
		h := w.health("signers")
		require.False(t, h.OK)
		require.Contains(t, h.Detail, w.signers())
		require.Contains(t, h.Detail, "gated trust adopt "+kept)
		require.NotContains(t, h.Detail, "AAAA", "never key material")
		require.True(t, w.health("settings").OK)
		require.Equal(t, whole, read(t, w.signers()))
		require.Equal(t, text, read(t, kept), "the last edit is kept")
	}
	require.NoError(t, os.Remove(kept))
	require.NoError(t, w.approve(id), "what was in force stays")

	// A file that is gone is written anew.
	require.NoError(t, os.Remove(w.signers()))
	w.hup()
	require.True(t, w.health("signers").OK)
	require.Equal(t, whole, read(t, w.signers()))
	w.haltSound()
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

// TestReloadWhileItStops: signals that come at any time, also after the end, end nothing and race
// with nothing.
func TestReloadWhileItStops(t *testing.T) {
	w := newInitialised(t)
	for range 5 {
		w.serve()
		for range 3 {
			require.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGHUP))
		}
		w.halt()
	}
	// After the last one alone: the kernel delivers it when it likes, and the next daemon would reload.
	require.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGHUP))
	require.NotContains(t, w.log.String(), "level=ERROR")
	w.sound()
}
