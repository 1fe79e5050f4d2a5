package matrix_test

import (
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// doomed is a row in which somebody asks for a step that cannot be done. If an operator is asked to sign it, the signature is spent
// for nothing, and the next request for the same is signed more lightly.
func doomed(id, what string, want refusal.Code, ready func(w *world), wish ...op.Ask) attack {
	return attack{id: id, what: "an operator is asked to sign " + what, want: want, run: func(w *world) error {
		ready(w)
		w.arm()
		for _, by := range []op.Requester{hub, builder, admin} {
			require.ErrorIs(w.t, failure(w.submit(by, wish...)), want)
		}
		return failure(w.submit(other, wish...))
	}}
}

var doomedRows = []attack{
	doomed("U34a", "a change to a command that the back end does not have", refusal.NotAllowed, func(w *world) { w.withCommands("gone") },
		ask("guest.set-config", "victim", "command", "gone")),
	doomed("U34b", "a restore of a snapshot that cannot be copied", refusal.TooComplex, func(w *world) {
		require.NoError(w.t, w.runJob(hub, ask("guest.snapshot", "victim", "snapshot", "s")))
		require.NoError(w.t, unix.Mkfifo(w.path("victim", "snapshots", "s", "pipe"), 0o600))
	}, ask("guest.restore", "victim", "snapshot", "s")),
	doomed("U34c", "a restore of a snapshot that the guest does not have", refusal.UnknownTarget, func(*world) {},
		ask("guest.restore", "victim", "snapshot", "nope")),
	doomed("U34d", "a job of which a later step cannot be done on the guest that it makes", refusal.NotAllowed, func(*world) {},
		ask("guest.destroy", "victim"), ask("guest.create", "new"), ask("guest.set-config", "new", "command", "nope")),
	doomed("U34e", "a job of which a later step cannot be done on the guest that it changes", refusal.NotAllowed, func(*world) {},
		ask("guest.set-config", "victim", "memory", int64(64)), ask("guest.set-config", "victim", "command", "nope")),
}
