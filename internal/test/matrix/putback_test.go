package matrix_test

import (
	"os"
	"regexp"
	"strconv"
	"syscall"

	"github.com/stretchr/testify/require"

	"gated/internal/base/refusal"
	"gated/internal/driver/local"
	"gated/internal/test/must"
)

// putBackRows: an administrator has a guest's directory elsewhere while the daemon starts, and puts it back. The guest's program
// runs all the time.
var putBackRows = []attack{
	{id: "U36", what: "a guest that was put back by hand is called stopped, and its program outlives a stop to reach what is put into it later",
		want: refusal.PendingSignature, run: func(w *world) error {
			w.makeGuest("web", "command", "idle")
			w.do("guest.start", "web")
			run := must.Get(os.ReadFile(w.path("web", "run.json")))(w.t)
			pid := must.Get(strconv.Atoi(string(regexp.MustCompile(`"pid":(\d+)`).FindSubmatch(run)[1])))(w.t)
			aside := w.root + "-aside"
			w.shut()
			require.NoError(w.t, os.Rename(w.path("web"), aside))
			w.open()
			require.NoError(w.t, os.Rename(aside, w.path("web")))
			w.arm()
			w.allow.trash, w.allow.tree = true, []string{"web"}
			require.Equal(w.t, local.Running, w.observe("web").Running)
			require.Contains(w.t, w.running(), "web")
			w.do("guest.start", "web")
			require.NoError(w.t, syscall.Kill(pid, 0), "it ran already")
			w.do("guest.stop", "web")
			require.ErrorIs(w.t, syscall.Kill(pid, 0), syscall.ESRCH)
			require.Equal(w.t, local.Stopped, w.observe("web").Running)
			w.unchanged()
			w.allow.finale = []string{"web"}
			return w.waits(w.submit(hub, ask("guest.destroy", "web")))
		}},
}
