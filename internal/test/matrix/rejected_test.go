package matrix_test

import (
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/people/policy"
	"gated/internal/reconcile"
	"gated/internal/test/must"
)

// says submits with a reason of its own.
func (w *world) says(by op.Requester, reason string, asks ...op.Ask) (op.Job, error) {
	return w.gate.Submit(w.ctx, op.Submission{Requester: by, Steps: asks, Reason: reason})
}

// turnDown has an operator reject a request.
func (w *world) turnDown(r op.Request) {
	w.t.Helper()
	must.Get(w.gate.Reject(w.ctx, hub, r.ID, w.rejection(r, w.alice)))(w.t)
}

var wipe = ask("guest.destroy", "victim")

// refusedOnce rejects the victim's destroy, which the hub wished as "clean up", and arms.
func refusedOnce(w *world) {
	w.t.Helper()
	j := must.Get(w.says(hub, "clean up", wipe))(w.t)
	w.turnDown(w.reread(j.Steps[0].ID))
	w.arm()
}

// nagging is a row in which a caller asks again, in some guise, for what an operator
// rejected. When the time is over, the same wish asks operators again.
func nagging(id, what string, run func(w *world) error) attack {
	return attack{id: id, what: what, want: refusal.RejectedBefore, run: func(w *world) error {
		refusedOnce(w)
		w.allow.repair = func() {
			w.pass(policy.RejectHolds)
			require.ErrorIs(w.t, w.waits(w.says(hub, "clean up", wipe)), refusal.PendingSignature)
		}
		err := run(w)
		require.Empty(w.t, must.Get(w.gate.Requests(w.ctx, op.StatePending))(w.t), "operators are asked again")
		return err
	}}
}

var rejectedRows = []attack{
	nagging("P20a", "an agent of the same uid, under a name that it has just made up, asks for what an operator rejected", func(w *world) error {
		return w.waits(w.says(op.Requester{Source: op.SourceAPI, UID: 1000, PID: 80, Agent: "fresh#9"}, "clean up", wipe))
	}),
	nagging("P20b", "the reason is the same but for white space", func(w *world) error {
		return w.waits(w.says(hub, "  clean \u00a0 up ", wipe))
	}),
	nagging("P20k", "the reason is left out", func(w *world) error { return w.waits(w.says(hub, "", wipe)) }),
	nagging("P20l", "the reason is the same in other letters, with a full stop", func(w *world) error {
		return w.waits(w.says(hub, "Clean Up.", wipe))
	}),
	nagging("P20c", "the rejected step is the second of a job whose first one loses nothing", func(w *world) error {
		err := w.waits(w.says(hub, "clean up", ask("guest.create", "decoy"), wipe))
		_ = w.runAll()
		require.False(w.t, w.observe("decoy").Present, "a part of it ran")
		return err
	}),
	nagging("P20d", "somebody sets the clock two days ahead, and starts the daemon again", func(w *world) error {
		w.booted("one")
		w.restart()
		w.reload() // the mark is of this boot
		w.setClock(48 * time.Hour)
		w.restart()
		err := w.waits(w.says(hub, "clean up", wipe))
		w.setClock(-48 * time.Hour)
		return err
	}),
	nagging("P20e", "with an idempotency key that is new, and then with that key again", func(w *world) error {
		keyed := op.Submission{Requester: hub, Steps: []op.Ask{wipe}, Reason: "clean up", IdempotencyKey: "once more"}
		must.Fail(w.gate.Submit(w.ctx, keyed))(w.t, refusal.RejectedBefore)
		return w.waits(w.gate.Submit(w.ctx, keyed))
	}),
	afterRestore("P20f", "a caller asks again for what an operator rejected before it was made", refusal.RejectedBefore, func(w *world) (func(), func() error) {
		j := must.Get(w.says(hub, "clean up", wipe))(w.t)
		w.turnDown(w.reread(j.Steps[0].ID))
		return func() { w.pass(time.Minute) }, func() error { return w.waits(w.says(hub, "clean up", wipe)) }
	}),
	inOneBoot("P20j", "the clock is set back by 30 hours and accepted: the rejection holds for an hour from then, and no longer", refusal.RejectedBefore,
		func(w *world) error {
			w.pass(30 * time.Hour)
			refusedOnce(w)
			w.setClock(-30 * time.Hour)
			w.shut()
			must.Get(w.acceptTime())(w.t)
			w.open()
			w.arm()
			w.allow.repair = func() {
				w.pass(policy.RejectHolds + time.Second)
				require.ErrorIs(w.t, w.waits(w.says(hub, "clean up", wipe)), refusal.PendingSignature)
			}
			return w.waits(w.says(hub, "clean up", wipe))
		}),
	{id: "P20g", what: "it joins another caller's request for the same, in place of asking", want: refusal.RejectedBefore, run: func(w *world) error {
		refusedOnce(w)
		j := must.Get(w.says(other, "clean up", wipe))(w.t)
		require.Equal(w.t, op.StatePending, j.State(), "one caller's rejection is none of another's wish")
		w.arm()
		err := w.waits(w.says(hub, "clean up", wipe))
		require.Equal(w.t, []op.Requester{{Source: other.Source, UID: other.UID, PID: other.PID}}, w.reread(j.Steps[0].ID).Requesters)
		return err
	}},
	{id: "P20h", what: "a caller blocks another one's wish with a rejection that no operator signed", want: refusal.UnknownSigner, run: func(w *world) error {
		r := w.requestBy(other, wipe)
		w.arm()
		_, err := w.gate.Reject(w.ctx, hub, r.ID, w.rejection(r, w.mallory))
		require.Equal(w.t, op.StatePending, w.reread(r.ID).Step.State)
		require.Zero(w.t, w.reread(r.ID).TimesRejected)
		must.Get(w.submit(other, wipe))(w.t)
		return err
	}},
	{id: "P20i", what: "desired state repeats a wish that an operator rejected, round after round", want: refusal.Rejected, run: func(w *world) error {
		absent := map[string]string{"hub": document("  - name: victim\n    state: absent\n")}
		w.apply(absent)
		open := must.Get(w.gate.Open(w.ctx, guest("victim")))(w.t)
		require.Len(w.t, open, 1)
		w.turnDown(w.reread(open[0].ID))
		w.armUnlogged("a set is refused without an entry, because it asks each round")
		var s reconcile.Status
		for range 5 {
			s = w.apply(absent)
			w.pass(policy.RejectHolds)
		}
		require.ErrorIs(w.t, w.planned("victim"), nothingPlanned)
		return stopped(s, "victim")
	}},
}
