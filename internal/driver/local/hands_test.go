package local

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"gated/internal/base/refusal"
)

// hands do something to the guest "web" beside the gate. No signature for what was there before covers it.
var hands = map[string]func(w *world){
	"it is protected": func(w *world) {
		text := strings.Replace(w.content("web", guestFile), `"protected":false`, `"protected":true`, 1)
		w.write(text, "edited")
		require.NoError(w.t, os.Rename(w.path("edited"), w.path("web", guestFile)))
	},
	"it has a label more": func(w *world) {
		text := strings.Replace(w.content("web", guestFile), `"labels":{`, `"labels":{"env":"prod"`, 1)
		w.write(text, "edited")
		require.NoError(w.t, os.Rename(w.path("edited"), w.path("web", guestFile)))
	},
	"it has a snapshot more":  func(w *world) { w.write("precious", "web", snapshotsDir, "by-hand", "file") },
	"it has another's data":   func(w *world) { exchange(w, w.path("web", dataDir), w.path("bystander", dataDir)) },
	"it has a directory more": func(w *world) { w.write("precious", "web", "beside", "file") },
	"its snapshot is another one": func(w *world) {
		w.write("precious", "web", "copy", "file")
		exchange(w, w.path("web", "copy"), w.path("web", snapshotsDir, "s1"))
		require.NoError(w.t, os.RemoveAll(w.path("web", "copy")))
	},
}

func exchange(w *world, a, b string) {
	w.t.Helper()
	require.NoError(w.t, unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE))
}

// What a hand does after the permit was used, and before something is taken, makes the step stale.
func TestHandsBeforeATaking(t *testing.T) {
	for name, hand := range hands {
		for _, verb := range []string{"destroy", "wipe", "restore", "snapshot-delete"} {
			t.Run(verb+": "+name, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				w.do("create", "bystander")
				w.write("theirs", "bystander", dataDir, "file")
				w.do("create", "web")
				w.write("mine", "web", dataDir, "file")
				w.do("snapshot", "web", "snapshot", "s1")
				s := w.step(verb, "web")
				if verb == "restore" || verb == "snapshot-delete" {
					s = w.step(verb, "web", "snapshot", "s1")
				}
				var after string
				p := &fakePermit{step: s, before: func() { hand(w); after = w.hash() }}
				err := w.d.did(w.ctx, p)
				require.NotEmpty(t, after)
				require.ErrorIs(t, err, refusal.StaleTarget)
				require.Equal(t, after, w.hash())
			})
		}
	}
}

// A guest has its grace to stop in, and a person may protect it just then.
func TestAHandWhileTheGuestStops(t *testing.T) {
	for _, verb := range []string{"destroy", "wipe"} {
		t.Run(verb, func(t *testing.T) {
			w := newWorld(t, func(c *Config) {
				c.StopGrace = time.Minute
				c.Commands = map[string]Command{"slow": {Env: map[string]string{"PATH": "/usr/bin:/bin"}, Argv: []string{"/bin/sh", "-c",
					`trap 'echo > asked' TERM; echo up > up; while [ ! -e go ]; do sleep 0.05; done`}}}
			})
			w.do("create", "web", "command", "slow")
			w.do("start", "web")
			w.waitUp("web")
			ended := make(chan error, 1)
			s := w.step(verb, "web")
			go func() { ended <- w.d.did(w.ctx, &fakePermit{step: s}) }()
			waitFor(t, "the guest is asked to end", func() bool { _, err := os.Stat(w.path("web", dataDir, "asked")); return err == nil })
			hands["it is protected"](w)
			w.write("", "web", dataDir, "go")
			require.ErrorIs(t, <-ended, refusal.StaleTarget)
			require.True(t, w.observe("web").Protected)
			require.Equal(t, "up\n", w.content("web", dataDir, "up"))
			require.Empty(t, entries(t, w.path(trashDir)))
		})
	}
}
