package matrix_test

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/authz"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver"
	"gated/internal/gate"
	"gated/internal/nonce"
	"gated/internal/test/must"
)

// together is a row in which an envelope holds a good signature and others.
func together(id, what string, want refusal.Code, more func(w *world, p []byte) []string) attack {
	return attack{id: id, what: "an envelope with a good signature and " + what, want: want, run: func(w *world) error {
		r := w.destroyRequest()
		good := w.alice.forge(w.t, operational, r.Payload)
		w.arm()
		bad := more(w, r.Payload)
		require.ErrorIs(w.t, w.send(r.ID, authz.Envelope{Payload: r.Payload, Signatures: append(bad, good)}), want)
		return w.send(r.ID, authz.Envelope{Payload: r.Payload, Signatures: append([]string{good}, bad...)})
	}}
}

// ownRows are attacks on what the gate allows, found by reading it.
var ownRows = []attack{
	together("X01a", "one by an unlisted key", refusal.UnknownSigner, func(w *world, p []byte) []string {
		return []string{w.mallory.forge(w.t, operational, p)}
	}),
	together("X01b", "one over other bytes", refusal.BadSignature, func(w *world, p []byte) []string {
		return []string{w.bob.forge(w.t, operational, append(p, ' '))}
	}),
	together("X01c", "one of a role that may not", refusal.RoleDenied, func(w *world, p []byte) []string {
		return []string{w.carol.forge(w.t, "coordination@gated", p)}
	}),
	together("X01d", "sixteen more", refusal.Oversized, func(w *world, p []byte) []string {
		one := w.bob.forge(w.t, operational, p)
		return strings.Split(strings.Repeat(one+"|", 15)+one, "|")
	}),
	{id: "X05a", what: "an approval for one gate is shown to another gate of the same host name, over the same kind of guest", want: refusal.TargetMismatch,
		run: func(w *world) error {
			elsewhere := bareWorld(w.t)
			elsewhere.makeGuest("victim")
			e := elsewhere.envelopeOf(elsewhere.destroyRequest())
			r := w.destroyRequest()
			w.arm()
			require.ErrorIs(w.t, w.sendOffline(e), refusal.TargetMismatch)
			return w.send(r.ID, e)
		}},
	{id: "X05b", what: "a second gate, with operators of its own, is set up over the same guests", want: refusal.Conflict, run: func(w *world) error {
		c := w.config()
		c.dir, c.trust = w.dir+"-second", w.mallory.line(operational)
		w.armUnlogged("it does not start")
		return failure(initHost(w.ctx, c))
	}},
	{id: "X06", what: "names of snapshots that are paths, stages or too long", want: refusal.BadParams, run: func(w *world) error {
		w.do("guest.snapshot", "bystander", "snapshot", "s")
		w.arm()
		var last error
		for _, name := range []string{"..", ".", "", ".new-x", "../../bystander/snapshots/s", "/etc", "a/b", "~", strings.Repeat("x", 129), "..s", "-rf"} {
			for _, a := range []op.Ask{ask("guest.snapshot", "victim", "snapshot", name), ask("guest.restore", "victim", "snapshot", name),
				ask("guest.snapshot-delete", "victim", "snapshot", name)} {
				_, last = w.submit(hub, a)
				require.ErrorIs(w.t, last, refusal.BadParams, "%q", name)
			}
		}
		return last
	}},
	{id: "X07a", what: "undelete under another name than the guest had", want: refusal.UnknownTarget, run: func(w *world) error {
		r := w.spent()
		w.mustApprove(w.request(ask("guest.destroy", "gone")))
		require.NoError(w.t, w.runAll())
		w.arm()
		return failure(w.submit(hub, ask("guest.undelete", "free", "incarnation", string(r.Step.Incarnation))))
	}},
	{id: "X07b", what: "undelete of a name's own trash with the incarnation of another's", want: refusal.UnknownTarget, run: func(w *world) error {
		for _, name := range []string{"one", "two"} {
			w.makeGuest(name)
			w.mustApprove(w.request(ask("guest.destroy", name)))
			require.NoError(w.t, w.runAll())
		}
		two := w.observe("two").Trash[0].Incarnation
		w.arm()
		err := w.runJob(hub, ask("guest.undelete", "one", "incarnation", string(two)))
		require.False(w.t, w.observe("one").Present)
		return err
	}},
	{id: "X07c", what: "the trash's record is rewritten to another incarnation", want: refusal.UnknownTarget, run: func(w *world) error {
		w.makeGuest("one")
		w.mustApprove(w.request(ask("guest.destroy", "one")))
		require.NoError(w.t, w.runAll())
		inc := string(w.observe("one").Trash[0].Incarnation)
		id := ".trash/one~" + strings.ReplaceAll(inc, ":", "~")
		w.edit(inc, string(w.observe("bystander").Incarnation), id+".json")
		w.arm()
		w.allow.repair = func() {}
		return failure(w.submit(hub, ask("guest.undelete", "one")))
	}},
	{id: "X08", what: "somebody guesses the birth token of a create and is there first", want: refusal.Conflict, run: func(w *world) error {
		j := must.Get(w.submit(builder, ask("guest.create", "tmp", "scratch", true)))(w.t)
		w.plantAs("tmp", j.Steps[0].Birth)
		w.arm()
		err := w.runAll()
		destroy, submitErr := w.submit(builder, ask("guest.destroy", "tmp"))
		require.ErrorIs(w.t, w.waits(destroy, submitErr), refusal.PendingSignature, "what was planted is nobody's scratch")
		must.Get(w.gate.Cancel(w.ctx, builder, destroy.ID))(w.t)
		w.ends(destroy.Steps[0].ID, op.StateCancelled, nonce.Cancelled)
		return err
	}},
	{id: "X09", what: "labels that are JSON which would unprotect, were it pasted", want: refusal.PendingSignature, run: func(w *world) error {
		evil := `"},"protected":false,"labels":{"x":"`
		w.makeFor(builder, "tmp", "protected", true, "scratch", true, "labels", labels("a", evil, "b", `\","protected":false`))
		w.restart()
		require.True(w.t, w.observe("tmp").Protected)
		require.Equal(w.t, evil, w.observe("tmp").Labels["a"])
		w.arm()
		w.allow.finale = []string{"tmp"}
		return w.waits(w.submit(builder, ask("guest.destroy", "tmp")))
	}},
	{id: "X10a", what: "scratch is destroyed, somebody brings it back, its creator destroys it again", want: refusal.PendingSignature, run: func(w *world) error {
		scratch(w)
		require.NoError(w.t, w.runJob(builder, ask("guest.destroy", "tmp")))
		require.NoError(w.t, w.runJob(admin, ask("guest.undelete", "tmp")))
		w.arm()
		w.allow.finale = []string{"tmp"}
		return w.waits(w.submit(builder, ask("guest.destroy", "tmp")))
	}},
	{id: "X10b", what: "scratch is made under the name of a guest in the trash, and destroyed unsigned: the trash keeps both apart", want: refusal.Conflict,
		run: func(w *world) error {
			r := w.spent()
			w.mustApprove(w.requestBy(builder, ask("guest.destroy", "gone")))
			require.NoError(w.t, w.runAll())
			w.makeFor(builder, "gone", "scratch", true)
			require.NoError(w.t, w.runJob(builder, ask("guest.destroy", "gone")))
			w.arm()
			err := w.runJob(builder, ask("guest.undelete", "gone")) // which?
			w.allow.repair = func() {
				require.NoError(w.t, w.runJob(builder, ask("guest.undelete", "gone", "incarnation", string(r.Step.Incarnation))))
				require.Equal(w.t, "the only copy of gone", string(must.Get(os.ReadFile(w.path("gone", "data", "precious.txt")))(w.t)))
			}
			w.allow.finale = []string{"victim", "gone"}
			return err
		}},
	{id: "X10c", what: "undelete and destroy in one job of what an operator destroyed", want: refusal.Conflict, run: func(w *world) error {
		w.makeGuest("gone")
		w.mustApprove(w.request(ask("guest.destroy", "gone")))
		require.NoError(w.t, w.runAll())
		w.arm()
		return failure(w.submit(builder, ask("guest.undelete", "gone"), ask("guest.destroy", "gone")))
	}},
	{id: "X11a", what: "a job that fails on purpose, after somebody else snapshotted what it made: it is not taken back", want: refusal.Superseded,
		run: func(w *world) error {
			j, err := w.submit(builder, ask("guest.create", "x"), ask("guest.start", "victim")) // which has no command
			require.NoError(w.t, err)
			require.NoError(w.t, w.executor().execute(w.ctx, j.Steps[0].ID))
			w.write("work of somebody else", "x", "data", "work")
			snap := must.Get(w.submit(other, ask("guest.snapshot", "x", "snapshot", "mine")))(w.t)
			require.NoError(w.t, w.executor().execute(w.ctx, snap.Steps[0].ID))
			w.arm()
			require.ErrorIs(w.t, w.executor().execute(w.ctx, j.Steps[1].ID), refusal.Conflict)
			err = w.runAll() // the compensation
			w.allow.finale = []string{"victim", "x"}
			return err
		}},
	{id: "X11b", what: "a job that fails on purpose, after desired state adopted what it made", want: refusal.PendingSignature, run: func(w *world) error {
		j, err := w.submit(builder, ask("guest.create", "x", "memory", int64(64)), ask("guest.start", "victim"))
		require.NoError(w.t, err)
		require.NoError(w.t, w.executor().execute(w.ctx, j.Steps[0].ID))
		require.NoError(w.t, w.gate.Adopt(w.ctx, "web", w.observe("x")))
		w.arm()
		require.ErrorIs(w.t, w.executor().execute(w.ctx, j.Steps[1].ID), refusal.Conflict)
		w.allow.finale = []string{"x"}
		return w.runAll()
	}},
	{id: "X11c", what: "a job that fails on purpose, after what it made was exchanged for a real guest", want: refusal.StaleTarget, run: func(w *world) error {
		j := must.Get(w.submit(builder, ask("guest.create", "x"), ask("guest.start", "victim")))(w.t)
		require.NoError(w.t, w.executor().execute(w.ctx, j.Steps[0].ID))
		w.vanish("x")
		w.plant("x")
		w.arm()
		require.ErrorIs(w.t, w.executor().execute(w.ctx, j.Steps[1].ID), refusal.Conflict)
		return w.runAll()
	}},
	{id: "X11d", what: "a job that protects and then fails on purpose, so that the protection is taken back", want: refusal.Conflict, run: func(w *world) error {
		w.makeGuest("tmp")
		j, err := w.submit(builder, ask("guest.set-config", "tmp", "protected", true), ask("guest.start", "victim"))
		require.NoError(w.t, err)
		require.NoError(w.t, w.executor().execute(w.ctx, j.Steps[0].ID))
		w.arm()
		err = w.executor().execute(w.ctx, j.Steps[1].ID)
		require.NoError(w.t, w.runAll())
		require.True(w.t, w.observe("tmp").Protected)
		return err
	}},
	{id: "X12", what: "two desired sets fight over a guest, one of them wants it absent", want: nothingPlanned, run: func(w *world) error {
		w.armUnlogged("neither wish counts; status says so")
		s := w.apply(map[string]string{"a": document("  - name: victim\n    memory: 64MiB\n    state: stopped\n"),
			"b": document("  - name: victim\n    state: absent\n")})
		require.Len(w.t, s.Conflicts, 1)
		return w.planned("victim")
	}},
	{id: "X13", what: "another uid uses an idempotency key again: it gets neither the answer nor the job", want: refusal.NotAllowed, run: func(w *world) error {
		sub := op.Submission{Requester: hub, Steps: []op.Ask{ask("guest.snapshot", "victim", "snapshot", "s")}, IdempotencyKey: "k"}
		first := must.Get(w.gate.Submit(w.ctx, sub))(w.t)
		sub.Requester = other
		second := must.Get(w.gate.Submit(w.ctx, sub))(w.t)
		require.NotEqual(w.t, first.ID, second.ID)
		w.cancel(other, second.ID)
		w.arm()
		_, err := w.gate.Cancel(w.ctx, other, first.ID)
		w.cancel(hub, first.ID)
		return err
	}},
	{id: "X14a", what: "a job of 65 steps", want: refusal.TooComplex, run: func(w *world) error {
		asks := make([]op.Ask, op.MaxSteps+1)
		for i := range asks {
			asks[i] = ask("guest.stop", "victim")
		}
		w.arm()
		return failure(w.submit(hub, asks...))
	}},
	{id: "X14b", what: "one job with more destructive steps than its requester may have open", want: refusal.OverLimit, run: func(w *world) error {
		w.rules.OpenPerSource = 3
		w.restart()
		asks := []op.Ask{}
		for i := range 4 {
			w.plant(fmt.Sprintf("g%d", i))
			asks = append(asks, ask("guest.destroy", fmt.Sprintf("g%d", i)))
		}
		w.arm()
		return failure(w.submit(hub, asks...))
	}},
	{id: "X18", what: "a permit taken before the operator rejected is used after it", want: refusal.Conflict, run: func(w *world) error {
		r := w.destroyRequest()
		w.mustApprove(r)
		p := must.Get(w.gate.Permit(w.ctx, r.ID))(w.t)
		must.Get(w.gate.Reject(w.ctx, hub, r.ID, w.rejection(r, w.bob)))(w.t)
		w.arm()
		return failure(driver.Run(w.ctx, p, w.driver))
	}},
	{id: "X19", what: "a permit of one gate is given to the driver of another host, which has a guest of that name", want: refusal.StaleTarget,
		run: func(w *world) error {
			elsewhere := bareWorld(w.t)
			elsewhere.makeGuest("victim")
			r := elsewhere.destroyRequest()
			elsewhere.mustApprove(r)
			p := must.Get(elsewhere.gate.Permit(w.ctx, r.ID))(w.t)
			w.armUnlogged("this gate was not asked")
			return failure(driver.Run(w.ctx, p, w.driver))
		}},
	{id: "X20", what: "executing without a permit", want: refusal.NotAllowed, run: func(w *world) error {
		w.armUnlogged("no gate was asked")
		return failure(driver.Run(w.ctx, gate.Permit{}, w.driver))
	}},
	{id: "X21", what: "a key is rotated out of allowed_signers between approval and execution", want: refusal.UnknownSigner, run: func(w *world) error {
		r := w.destroyRequest()
		w.mustApprove(r)
		w.rotate(nil, []string{w.alice.print(w.t)}, w.bob.votes(operational))
		w.arm()
		w.allow.repair = func() {
			w.rotate([]string{w.alice.line(operational)}, nil, w.bob.votes(operational), w.alice.votes(operational))
		}
		return w.executor().execute(w.ctx, r.ID)
	}},
	{id: "X22", what: "the policy's validity is tightened between approval and execution", want: refusal.Expired, run: func(w *world) error {
		r := w.destroyRequest()
		w.mustApprove(r)
		w.pass(2 * time.Hour)
		w.rules.MaxValidity = time.Hour
		require.NoError(w.t, w.gate.Reload(w.ctx, w.revoked, w.rules))
		w.arm()
		return w.executor().execute(w.ctx, r.ID)
	}},
	{id: "X23", what: "desired state wants a scratch guest absent, which only its creator may destroy unsigned", want: refusal.PendingSignature,
		run: func(w *world) error {
			scratch(w)
			w.arm()
			w.allow.finale = []string{"tmp"}
			w.apply(map[string]string{"hub": document("  - name: tmp\n    state: absent\n")})
			return w.planned("tmp")
		}},
	{id: "X24", what: "desired state withdraws its wish after the approval, before the execution", want: refusal.Conflict, run: func(w *world) error {
		j := must.Get(w.gate.Want(w.ctx, "hub", ask("guest.destroy", "victim")))(w.t)
		r := w.reread(j.Steps[0].ID)
		w.mustApprove(r)
		p := must.Get(w.gate.Permit(w.ctx, r.ID))(w.t)
		require.NoError(w.t, w.gate.Withdraw(w.ctx, "hub", guest("victim"), nil))
		w.arm()
		_, err := driver.Run(w.ctx, p, w.driver)
		require.Equal(w.t, op.StateCancelled, w.stepOf(r.ID).State)
		return err
	}},
	{id: "X25", what: "the same rejection twice, and one of an older payload", want: refusal.BindingMismatch, run: func(w *world) error {
		r := w.destroyRequest()
		e := w.rejection(r, w.alice)
		guarded(w)
		w.again()
		w.arm()
		return failure(w.gate.Reject(w.ctx, hub, r.ID, e))
	}},
}

func (w *world) cancel(by op.Requester, id op.JobID) {
	w.t.Helper()
	must.Get(w.gate.Cancel(w.ctx, by, id))(w.t)
}
