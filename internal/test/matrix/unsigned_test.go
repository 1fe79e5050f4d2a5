package matrix_test

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

// Rows U attack what is not signed: sequences of allowed steps by several callers.
// Their numbers are those of the hole that each was; docs/threat-model.md says what
// holds now.

// swapRows: another program in a guest's data does with it whatever it likes.
var swapRows = []attack{
	unsigned("U01a", "another agent gives a guest with data another program", withIdle, builder, ask("guest.set-config", "tmp", "command", "deaf")),
	unsigned("U01b", "the agent that made the guest does, once the guest holds data", func(w *world) {
		w.makeFor(builder, "tmp", "command", "idle")
		w.write("cannot be made again", "tmp", "data", "notes")
	}, builder, ask("guest.set-config", "tmp", "command", "deaf")),
	unsigned("U01c", "desired state does", withIdle, hub, ask("guest.set-config", "tmp", "command", "deaf")).via("  - name: tmp\n    command: deaf\n"),
	unsigned("U01d", "an agent takes the program away first, which is the same", withIdle, builder, ask("guest.set-config", "tmp", "command", "")),
	unsigned("U01e", "an agent hides it among changes that lose nothing", withIdle, builder,
		ask("guest.set-config", "tmp", "memory", int64(64), "cpus", int64(1), "command", "deaf")),
	unsigned("U01f", "an agent does it to an empty guest of another agent, which is filled afterwards", func(w *world) {
		w.makeFor(builder, "tmp", "command", "idle")
	}, tester, ask("guest.set-config", "tmp", "command", "deaf")),
	unsigned("U01g", "an agent does it to scratch of another agent", func(w *world) {
		w.makeFor(builder, "tmp", "scratch", true, "command", "idle")
	}, tester, ask("guest.set-config", "tmp", "command", "deaf")),
	unsigned("U01h", "the creator of scratch does it after another agent started it", func(w *world) {
		w.makeFor(builder, "tmp", "scratch", true, "command", "idle")
		require.NoError(w.t, w.runJob(tester, ask("guest.start", "tmp"), ask("guest.stop", "tmp")))
		w.write("the tester's", "tmp", "data", "notes")
	}, builder, ask("guest.set-config", "tmp", "command", "deaf")),
	{id: "U01i", what: "an agent gives a guest a program that the configuration names for other guests", want: refusal.NotAllowed, run: func(w *world) error {
		w.rules.CommandGuests = map[string][]string{"deaf": {"build-*"}}
		w.reload()
		w.arm()
		must.Fail(w.submit(builder, ask("guest.create", "new", "command", "deaf")))(w.t, refusal.NotAllowed)
		return failure(w.submit(builder, ask("guest.set-config", "victim", "command", "deaf")))
	}},
}

func withIdle(w *world) {
	w.makeGuest("tmp", "command", "idle")
	w.write("cannot be made again", "tmp", "data", "notes")
}

// only submits a job and runs its steps, and no other.
func (w *world) only(by op.Requester, asks ...op.Ask) {
	w.t.Helper()
	j := must.Get(w.submit(by, asks...))(w.t)
	for _, s := range j.Steps {
		require.NoError(w.t, w.executor().execute(w.ctx, s.ID))
	}
}

// takenBack is a row in which a job of builder makes tmp and fails later. Meanwhile
// others use what it made. If they asked the gate, the compensation is superseded; if
// not, it waits for a signature.
func takenBack(id, what string, want refusal.Code, meanwhile func(w *world), kv ...any) attack {
	return attack{id: id, what: what, want: want, run: func(w *world) error {
		j, err := w.submit(builder, ask("guest.create", "tmp", append([]any{"command", "idle"}, kv...)...), ask("guest.snapshot", "bystander", "snapshot", "s"))
		require.NoError(w.t, err)
		require.NoError(w.t, w.executor().execute(w.ctx, j.Steps[0].ID))
		meanwhile(w)
		w.first("guest.snapshot", "bystander", "snapshot", "s") // the job's own fails for it
		w.arm()
		if want == refusal.PendingSignature { // that is what is signed at the end
			w.allow.finale = []string{"tmp"}
		}
		_ = w.runAll()
		job := must.Get(w.gate.Job(w.ctx, j.ID))(w.t)
		require.Len(w.t, job.Steps, 3)
		require.True(w.t, w.observe("tmp").Present)
		return refusal.Code(job.Steps[2].State)
	}}
}

// takenBackRows: what a failed job takes back is not what others use by then.
var takenBackRows = []attack{
	takenBack("U02a", "another agent writes into the guest that a failing job made", refusal.PendingSignature, func(w *world) { w.write("the tester's", "tmp", "data", "notes") }),
	takenBack("U02b", "another agent configures it", refusal.Superseded, func(w *world) {
		w.only(tester, ask("guest.set-config", "tmp", "memory", int64(64)))
	}),
	takenBack("U02c", "another agent starts and stops it", refusal.Superseded, func(w *world) {
		w.only(tester, ask("guest.start", "tmp"), ask("guest.stop", "tmp"))
	}),
	takenBack("U02d", "its own agent starts and stops it in another job", refusal.Superseded, func(w *world) {
		w.only(builder, ask("guest.start", "tmp"), ask("guest.stop", "tmp"))
	}),
	takenBack("U02e", "it was made as scratch, and another agent writes into it", refusal.PendingSignature, func(w *world) {
		w.write("the tester's", "tmp", "data", "notes")
	}, "scratch", true),
	takenBack("U02f", "it was made as scratch, and its own agent takes a snapshot of it in another job", refusal.Superseded, func(w *world) {
		w.only(builder, ask("guest.snapshot", "tmp", "snapshot", "s"))
	}, "scratch", true),
	unsigned("U02g", "an agent destroys its scratch after another agent configured it", func(w *world) {
		scratch(w)
		w.only(tester, ask("guest.set-config", "tmp", "memory", int64(64)))
	}, builder, ask("guest.destroy", "tmp")),
	unsigned("U37", "an agent destroys the scratch that another agent asked for, too", func(w *world) {
		w.makeFor(hub, "tmp")
		w.mustApprove(w.requestBy(hub, ask("guest.destroy", "tmp")))
		require.NoError(w.t, w.runAll())
		r := w.requestBy(builder, ask("guest.create", "tmp", "scratch", true))
		require.Equal(w.t, r.ID, w.requestBy(tester, ask("guest.create", "tmp", "scratch", true)).ID)
		w.mustApprove(w.reread(r.ID))
		require.NoError(w.t, w.runAll())
		w.write("the tester's", "tmp", "data", "notes")
	}, builder, ask("guest.destroy", "tmp")),
	unsigned("U02h", "an agent wipes its scratch after another agent took a snapshot of it", func(w *world) {
		scratch(w)
		w.only(tester, ask("guest.snapshot", "tmp", "snapshot", "s"))
	}, builder, ask("guest.wipe", "tmp")),
}

// denied is a row in which a back end says that a step was done which it did not do.
func denied(id string, signed bool, a op.Ask) attack {
	return attack{id: id, what: fmt.Sprintf("the back end says that %s is done, and the look denies it", a.Op), want: refusal.Code(op.StateFailed),
		run: func(w *world) error {
			w.first("guest.snapshot", "victim", "snapshot", "s")
			var id op.StepID
			if signed {
				r := w.request(a)
				w.mustApprove(r)
				id = r.ID
			} else {
				j := must.Get(w.submit(builder, a))(w.t)
				id = j.Steps[0].ID
			}
			w.arm()
			w.back = liar{w.driver, func(context.Context) (string, error) { return "", nil }, nil, &atomic.Int64{}}
			w.reconcile()
			w.back = w.driver
			return refusal.Code(w.stepOf(id).State)
		}}
}

// deniedRows: a back end's word counts only where a look does not contradict it.
var deniedRows = []attack{
	denied("U07a", false, ask("guest.snapshot", "victim", "snapshot", "new")),
	denied("U07b", true, ask("guest.snapshot-delete", "victim", "snapshot", "s")),
	denied("U07c", false, ask("guest.set-config", "victim", "memory", int64(64))),
	denied("U07d", false, ask("guest.set-config", "victim", "protected", true)),
	denied("U07e", false, ask("guest.set-config", "victim", "labels", labels("tier", "prod"))),
}
