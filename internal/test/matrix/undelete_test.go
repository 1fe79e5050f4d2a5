package matrix_test

import (
	"os"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

// undeleteRows: a destroyed guest, and its name, belong to the requester who had
// it destroyed and to operators until the trash is swept.
var undeleteRows = []attack{
	inTrash("U03a", "another agent makes a guest under a name of the trash, again and again", builder, func(w *world) error {
		var last error
		for range 3 {
			j, err := w.submit(tester, ask("guest.create", "gone", "scratch", true))
			last = w.waits(j, err)
		}
		return last
	}),
	inTrash("U03b", "another user does, in a job of several steps", hub, func(w *world) error {
		w.allow.finale = []string{"gone", "mine"}
		j := must.Get(w.submit(other, ask("guest.create", "mine"), ask("guest.create", "gone")))(w.t)
		require.NoError(w.t, w.runAll())
		require.False(w.t, w.observe("mine").Present, "nothing of a job runs while a step waits")
		return refusal.Code(w.stepOf(j.Steps[1].ID).State)
	}),
	inTrash("U03c", "desired state wishes a guest of that name", hub, func(w *world) error {
		w.apply(map[string]string{"hub": document("  - name: gone\n    state: stopped\n")})
		return w.planned("gone")
	}),
	inTrash("U03d", "desired state wishes it after an operator on the socket had it destroyed", admin, func(w *world) error {
		w.apply(map[string]string{"hub": document("  - name: gone\n    state: stopped\n")})
		return w.planned("gone")
	}),
	inTrash("U03e", "another user brings it back", hub, func(w *world) error {
		return w.waits(w.submit(other, ask("guest.undelete", "gone")))
	}),
	inTrash("U03f", "another agent of the same user brings it back, under another name", builder, func(w *world) error {
		w.allow.finale = []string{"mine"}
		return w.waits(w.submit(tester, ask("guest.undelete", "mine", "from", "gone")))
	}),
	inTrash("U03g", "its creator brings back what an operator on the socket had destroyed", admin, func(w *world) error {
		return w.waits(w.submit(hub, ask("guest.undelete", "gone")))
	}),
	inTrash("U03h", "an agent under an operator's uid brings it back", hub, func(w *world) error {
		return w.waits(w.submit(op.Requester{Source: op.SourceAPI, UID: 0, PID: 82, Agent: "builder"}, ask("guest.undelete", "gone")))
	}),
	{id: "U03i", what: "a user joins another's request to destroy a guest, and brings it back when an operator has signed", want: refusal.PendingSignature,
		run: func(w *world) error {
			w.makeFor(builder, "gone")
			r := w.requestBy(hub, ask("guest.destroy", "gone"))
			require.Equal(w.t, r.ID, w.requestBy(other, ask("guest.destroy", "gone")).ID)
			w.mustApprove(w.reread(r.ID))
			require.NoError(w.t, w.runAll())
			w.arm()
			w.allow.finale = []string{"gone"}
			return w.waits(w.submit(other, ask("guest.undelete", "gone")))
		}},
	{id: "U03j", what: "who carried an operator's signed destroy to the gate brings the guest back", want: refusal.PendingSignature, run: func(w *world) error {
		w.makeFor(builder, "gone")
		r := w.requestBy(other, ask("guest.destroy", "gone"))
		e := w.by(w.freshPayload(r), w.bob.votes(operational))
		w.cancel(other, r.ID.Job)
		require.NoError(w.t, w.sendOffline(e)) // as hub
		require.NoError(w.t, w.runAll())
		w.arm()
		w.allow.finale = []string{"gone"}
		return w.waits(w.submit(hub, ask("guest.undelete", "gone")))
	}},
	inTrash("U03k", "the trash is swept after its time, while an undelete waits for its signature", hub, func(w *world) error {
		j, err := w.submit(other, ask("guest.undelete", "mine", "from", "gone"))
		err = w.waits(j, err)
		w.allow.finale = []string{"mine"}
		w.pass(25 * time.Hour)
		require.NoError(w.t, w.driver.Sweep(w.ctx))
		require.Len(w.t, w.observe("gone").Trash, 1)
		w.allow.repair = func() {
			w.cleanup(func() {
				require.Equal(w.t, "the only copy of gone", string(must.Get(os.ReadFile(w.path("mine", "data", "precious.txt")))(w.t)))
			})
		}
		return err
	}),
	{id: "U03l", what: "an undelete that names no incarnation of several", want: refusal.Conflict, run: func(w *world) error {
		for range 2 {
			w.makeGuest("gone")
			w.destroyed("gone")
		}
		w.arm()
		return failure(w.submit(hub, ask("guest.undelete", "mine", "from", "gone")))
	}},
	{id: "U03m", what: "an undelete of a guest that is there, by from", want: refusal.UnknownTarget, run: func(w *world) error {
		w.arm()
		return failure(w.submit(hub, ask("guest.undelete", "mine", "from", "victim")))
	}},
	{id: "U03n", what: "from is a path", want: refusal.BadParams, run: func(w *world) error {
		w.arm()
		return failure(w.submit(hub, ask("guest.undelete", "mine", "from", "../victim")))
	}},
	{id: "U03o", what: "an agent brings its own scratch back under the name of another's destroyed guest", want: refusal.PendingSignature, run: func(w *world) error {
		w.makeGuest("gone")
		w.destroyedFor(hub, "gone")
		w.makeFor(builder, "mine", "scratch", true)
		require.NoError(w.t, w.runJob(builder, ask("guest.destroy", "mine")))
		w.arm()
		w.allow.finale = []string{"gone"}
		j, err := w.submit(builder, ask("guest.undelete", "gone", "from", "mine"))
		err = w.waits(j, err)
		require.False(w.t, w.observe("gone").Present)
		return err
	}},
}

// inTrash is a row about a guest gone of hub's, for whose destroy by asked and an
// operator signed.
func inTrash(id, what string, by op.Requester, attempt func(w *world) error) attack {
	return attack{id: id, what: what, want: refusal.PendingSignature, run: func(w *world) error {
		w.makeGuest("gone")
		w.destroyedFor(by, "gone")
		w.arm()
		w.allow.finale = []string{"gone"}
		err := attempt(w)
		require.False(w.t, w.observe("gone").Present)
		require.Len(w.t, w.observe("gone").Trash, 1)
		return err
	}}
}
