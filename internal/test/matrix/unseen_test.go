package matrix_test

import (
	"os"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// unseenRows: an operator signs what was shown, so what is shown has to be what is
// there, and a name that is read has to be the name that is meant.
var unseenRows = []attack{
	impossible("U08a", "lists a name with a Cyrillic letter, which looks like alice's", func(w *world) op.Ask {
		return w.next([]string{w.mallory.as("\u0430lice")}, nil)
	}),
	impossible("U08b", "lists a name that a terminal shows from right to left", func(w *world) op.Ask {
		return w.next([]string{w.mallory.as("\u05d0ecila")}, nil)
	}),
	impossible("U08c", "lists an authority for a domain with a letter that looks like another", func(w *world) op.Ask {
		line := theCA(w).Line("*@ex\u0430mple.com", "cert-authority,"+lineOptions(operational))
		return w.next([]string{line}, nil)
	}),
	{id: "U08d", what: "other hands put another snapshot under the name that an operator was shown", want: refusal.StaleTarget, run: func(w *world) error {
		w.makeGuest("tmp")
		w.write("good", "tmp", "data", "notes")
		require.NoError(w.t, w.runJob(hub, ask("guest.snapshot", "tmp", "snapshot", "good")))
		r := w.request(ask("guest.restore", "tmp", "snapshot", "good"))
		there := w.path("tmp", "snapshots", "good")
		require.NoError(w.t, os.Rename(there, there+"-before"))
		require.NoError(w.t, os.Mkdir(there, 0o700))
		w.arm()
		w.allow.finale = []string{"tmp"}
		w.allow.repair = func() {
			require.NoError(w.t, os.Remove(there))
			require.NoError(w.t, os.Rename(there+"-before", there))
		}
		return w.send(r.ID, w.alice.envelope(w.t, r.Payload))
	}},
}
