package matrix_test

import (
	"fmt"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver"
	"gated/internal/gate"
	"gated/internal/people/policy"
	"gated/internal/test/mint"
	"gated/internal/test/must"
)

// ownRotationRows are attacks on who decides.
var ownRotationRows = []attack{
	{id: "X36a", what: "a rotation where two are needed is approved by the operator whom it removes, and the one whom it adds", want: refusal.PendingSignature,
		run: func(w *world) error {
			w.two()
			r := w.request(w.next([]string{w.mallory.line(operational)}, prints(alice)(w)))
			w.arm()
			return w.unmet(1)(w.signs(r, w.alice.votes(operational), w.mallory.votes(operational)))
		}},
	{id: "X36b", what: "a rotation that somebody signed who is removed by another rotation meanwhile", want: refusal.BadParams, run: func(w *world) error {
		w.two()
		r := w.mustSign(w.request(w.next([]string{w.mallory.line(operational)}, nil)), w.bob.votes(operational), w.mallory.votes(operational))
		w.rotate(nil, prints(bob)(w), w.rita.votes(recovery))
		w.rule()
		w.seconds = nil
		w.arm()
		return w.send(r.ID, w.by(r.Payload, w.alice.votes(operational)))
	}},
	{id: "X37a", what: "the envelope of a rotation is replayed when what it added is gone", want: refusal.Replayed, run: func(w *world) error {
		r := w.request(w.next([]string{w.mallory.line(operational)}, nil))
		e := w.by(r.Payload, w.alice.votes(operational), w.mallory.votes(operational))
		require.NoError(w.t, w.send(r.ID, e))
		require.NoError(w.t, w.runAll())
		w.rotate(nil, []string{w.mallory.print(w.t)}, w.alice.votes(operational))
		w.arm()
		require.ErrorIs(w.t, w.sendOffline(e), refusal.Replayed)
		return w.send(r.ID, e)
	}},
	{id: "X37b", what: "a rotation that was signed offline and not sent until the epoch was another", want: refusal.BadParams, run: func(w *world) error {
		r := w.request(w.next([]string{w.mallory.line(operational)}, nil))
		e := w.by(w.freshPayload(r), w.alice.votes(operational), w.mallory.votes(operational))
		w.rotate(nil, prints(bob)(w), w.alice.votes(operational))
		w.arm()
		return w.sendOffline(e)
	}},
	{id: "X37c", what: "a rotation back to a file that was there before: what was signed for that file", want: refusal.BadParams, run: func(w *world) error {
		r := w.request(w.next([]string{w.mallory.line(operational)}, nil))
		e := w.by(w.freshPayload(r), w.alice.votes(operational), w.mallory.votes(operational))
		before := w.gate.Trust().Digest()
		w.rotate([]string{strings.Replace(w.rita.line(recovery), "rita@", "rosa@", 1)}, prints(rita)(w), w.rita.votes(recovery))
		w.rotate([]string{w.rita.line(recovery)}, prints(rita)(w), w.rita.votes(recovery))
		require.Equal(w.t, before, w.gate.Trust().Digest(), "every byte is what it was")
		w.arm()
		return w.sendOffline(e)
	}},
	{id: "X38a", what: "a line to add with a newline and a second line in it", want: refusal.Malformed, run: func(w *world) error {
		a := w.next([]string{w.mallory.line(operational)}, nil)
		a.Params["add"] = []any{strings.TrimSuffix(w.mallory.line(operational), "\n") + "\n" + strings.TrimSuffix(w.mallory.as("bob"), "\n")}
		w.arm()
		return failure(w.submit(hub, a))
	}},
	{id: "X38b", what: "a line to add that is a comment, after which the file's last line would go on", want: refusal.BadParams, run: func(w *world) error {
		w.arm()
		return failure(w.submit(hub, w.next([]string{"# " + w.mallory.line(operational)}, nil)))
	}},
	{id: "X38c", what: "a rotation of another target than the signers", want: refusal.BadParams, run: func(w *world) error {
		a := w.next(nil, prints(bob)(w))
		a.Target.Name = "revoked"
		w.arm()
		return failure(w.submit(hub, a))
	}},
	{id: "X39", what: "a rotation without a permit, with one that was not used, with another step's", want: refusal.NotAllowed, run: func(w *world) error {
		r := w.mustSign(w.request(w.next(nil, prints(bob)(w))), w.rita.votes(recovery))
		unused := must.Get(w.gate.Permit(w.ctx, r.ID))(w.t)
		j := must.Get(w.submit(hub, ask("guest.snapshot", "bystander", "snapshot", "s")))(w.t)
		others := must.Get(w.gate.Permit(w.ctx, j.Steps[0].ID))(w.t)
		require.NoError(w.t, others.Use(w.ctx, w.observe("bystander")))
		w.armUnlogged("no decision was asked for")
		var last error
		for _, p := range []gate.Permit{{}, unused, others} {
			_, last = w.gate.Rotate(w.ctx, p)
			require.ErrorIs(w.t, last, refusal.NotAllowed)
		}
		_, err := w.gate.Record(w.ctx, j.Steps[0].ID, gate.Outcome{Err: refusal.New(refusal.Conflict, "given up"), After: ptr(w.observe("bystander"))})
		require.NoError(w.t, err)
		w.stop(r)
		return last
	}},
	{id: "X40", what: "a version of the trust file is written into the database by hand", want: reported, run: func(w *world) error {
		w.armUnlogged("whoever writes the database does not ask")
		text := w.trust + w.mallory.line(operational)
		for _, change := range [][2]string{
			{`INSERT INTO trust(epoch, text, how, at) SELECT max(epoch) + 1, CAST('` + text + `' AS BLOB), 'j1.1', 0 FROM trust`,
				`DELETE FROM trust WHERE how = 'j1.1'`},
			{`UPDATE trust SET text = CAST('` + text + `' AS BLOB)`, `UPDATE trust SET text = CAST('` + w.trust + `' AS BLOB)`},
		} {
			w.sql(change[0])
			require.False(w.t, w.fsck().Sound, "%s", change[0])
			w.sql(change[1])
			require.True(w.t, w.fsck().Sound, "%s: %v", change[1], w.fsck().Problems)
		}
		return reported
	}},
	{id: "X41", what: "approve and rotate the approver out at once, many times: it never runs", want: lostRace, run: func(w *world) error {
		w.arm()
		w.allow.unlogged, w.allow.rotates, w.allow.anyFate = "both are allowed", true, true
		for range 6 {
			r := w.destroyRequest()
			out := w.mustSign(w.request(w.next(nil, prints(bob)(w))), w.rita.votes(recovery))
			e := w.by(r.Payload, w.bob.votes(operational))
			var approved, rotated error
			both(func() { approved = w.send(r.ID, e) }, func() { rotated = w.executor().execute(w.ctx, out.ID) })
			require.NoError(w.t, rotated)
			if approved == nil {
				require.ErrorIs(w.t, w.executor().execute(w.ctx, r.ID), refusal.UnknownSigner)
			} else {
				require.ErrorIs(w.t, approved, refusal.UnknownSigner)
				w.cancel(hub, r.ID.Job)
			}
			w.rotate([]string{w.bob.line(operational)}, nil, w.alice.votes(operational), w.bob.votes(operational))
		}
		return lostRace
	}},
	{id: "X42", what: "a rotation by stolen operational keys cools off, recovery rejects it, and its permit is used", want: refusal.Conflict, run: func(w *world) error {
		w.rule(policy.Rule{Where: "gated.yaml:3", Op: "trust.rotate", Threshold: 2, CoolOff: coolOff})
		r := w.request(w.next([]string{w.mallory.line(operational)}, prints(alice)(w)))
		r = w.mustSign(r, w.alice.votes(operational), w.bob.votes(operational), w.mallory.votes(operational))
		p := must.Get(w.gate.Permit(w.ctx, r.ID))(w.t)
		require.ErrorIs(w.t, w.executor().execute(w.ctx, r.ID), refusal.Unavailable)
		must.Get(w.gate.Reject(w.ctx, hub, r.ID, w.by(w.rejection(r, w.alice).Payload, w.rita.votes(recovery))))(w.t)
		w.pass(coolOff)
		w.arm()
		return failure(driver.Run(w.ctx, p, w))
	}},
	{id: "X43", what: "an offline payload that lives for longer than a rule of its target allows", want: refusal.ValidityTooLong, run: func(w *world) error {
		r := w.destroyRequest()
		w.rule(policy.Rule{Where: "gated.yaml:3", Target: "guest/vic*", Threshold: 1, MaxValidity: time.Hour})
		b := w.altered(r, func(p *op.Payload) {
			p.Nonce, p.ExpiresAt = op.NewNonce(time.Now()), p.IssuedAt.Add(time.Hour+time.Second)
		})
		w.arm()
		return w.sendOffline(w.alice.envelope(w.t, b))
	}},
	{id: "X44", what: "a rotation that nobody signed, asked for by root, the daemon's uid and an agent", want: refusal.PendingSignature, run: func(w *world) error {
		w.arm()
		var last error
		for _, by := range []op.Requester{{Source: op.SourceAPI}, {Source: op.SourceAPI, UID: daemonUID}, builder} {
			j, err := w.submit(by, w.next(nil, prints(bob)(w)))
			last = w.waits(j, err)
			require.ErrorIs(w.t, last, refusal.PendingSignature)
			require.ErrorIs(w.t, w.executor().execute(w.ctx, j.Steps[0].ID), refusal.Conflict)
		}
		return last
	}},
	{id: "X48", what: "a fifth rotation is asked for while four wait, each of which people would have to compare", want: refusal.OverLimit, run: func(w *world) error {
		for i := range 4 {
			w.request(w.next([]string{mint.Ed25519(w.t, fmt.Sprintf("crowd-%d", i)).Line("dora@example.com", lineOptions(operational))}, nil))
		}
		w.arm()
		return failure(w.submit(hub, w.next([]string{w.mallory.line(operational)}, nil)))
	}},
	{id: "X45", what: "a rotation's payload in which another line stands, under its nonce and under a fresh one", want: refusal.BindingMismatch, run: func(w *world) error {
		r := w.request(w.next([]string{w.mallory.line(operational)}, nil))
		swap := func(p *op.Payload) {
			p.Params = w.next([]string{w.mallory.line("operational@gated,coordination@gated")}, nil).Params
		}
		same := w.altered(r, swap)
		fresh := w.altered(r, func(p *op.Payload) { swap(p); p.Nonce = op.NewNonce(time.Now()) })
		votes := []vote{w.alice.votes(operational), w.mallory.votes(operational), w.mallory.votes(coordination)}
		w.arm()
		require.ErrorIs(w.t, w.sendOffline(w.by(same, votes...)), refusal.BindingMismatch)
		require.ErrorIs(w.t, w.send(r.ID, w.by(fresh, votes...)), refusal.BindingMismatch)
		return w.send(r.ID, w.by(same, votes...))
	}},
	{id: "X46", what: "desired state says absent where two are needed, and one signed", want: refusal.PendingSignature, run: func(w *world) error {
		w.two()
		j := must.Get(w.gate.Want(w.ctx, "hub", ask("guest.destroy", "victim")))(w.t)
		r := w.reread(j.Steps[0].ID)
		w.arm()
		return w.unmet(1)(w.signs(r, w.alice.votes(operational)))
	}},
	{id: "X47", what: "a key approves a destroy in the same job in which a rotation adds it", want: refusal.UnknownSigner, run: func(w *world) error {
		j, err := w.submit(hub, w.next([]string{w.mallory.line(operational)}, nil), ask("guest.destroy", "victim"))
		require.NoError(w.t, err)
		rotation, destroy := w.reread(j.Steps[0].ID), w.reread(j.Steps[1].ID)
		w.mustSign(rotation, w.alice.votes(operational), w.mallory.votes(operational))
		w.arm()
		w.allow.finale = []string{"victim"}
		return w.send(destroy.ID, w.by(destroy.Payload, w.mallory.votes(operational)))
	}},
}

func ptr(o op.Observed) *op.Observed { return &o }
