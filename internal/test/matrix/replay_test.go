package matrix_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/gate"
	"gated/internal/nonce"
	"gated/internal/people/policy"
	"gated/internal/test/mint"
	"gated/internal/test/must"
)

// forgotten is a row in which what was used is sent again after its nonce was
// pruned and the clock was set back to where it would be in time.
func forgotten(id, what string, want refusal.Code, use func(w *world) (send func() error, n string)) attack {
	return attack{id: id, what: what + " is replayed after its nonce was forgotten and the clock was set back", want: want, run: func(w *world) error {
		send, n := use(w)
		w.pass(30 * time.Hour)
		require.NoError(w.t, w.gate.Tick(w.ctx))
		require.NotContains(w.t, w.nonceRows(), n, "it was to be forgotten")
		w.setClock(-30 * time.Hour)
		w.arm()
		w.allow.repair = func() { w.setClock(30 * time.Hour) }
		return send()
	}}
}

// peopleReplayRows complete T04 to T08, T11, T12 and B14.
var peopleReplayRows = slices.Concat([]attack{
	forgotten("T04b", "a rejection", refusal.Expired, func(w *world) (func() error, string) {
		r := w.destroyRequest()
		e := w.rejection(r, w.alice)
		rej := must.Get(op.DecodeRejection(e.Payload))(w.t)
		must.Get(w.gate.Reject(w.ctx, hub, r.ID, e))(w.t)
		again := w.destroyBecause("a new reason")
		return func() error {
			must.Fail(w.gate.Reject(w.ctx, hub, r.ID, e))(w.t, refusal.Expired)
			return failure(w.gate.Reject(w.ctx, hub, again.ID, e))
		}, rej.Nonce
	}),
	forgotten("T04c", "an operation that was signed offline", refusal.Expired, func(w *world) (func() error, string) {
		w.makeGuest("gone")
		r := w.request(ask("guest.destroy", "gone"))
		e := w.by(w.freshPayload(r), w.bob.votes(operational))
		w.cancel(hub, r.ID.Job)
		require.NoError(w.t, w.sendOffline(e))
		require.NoError(w.t, w.runAll())
		require.NoError(w.t, w.runJob(admin, ask("guest.undelete", "gone")))
		return func() error { return w.sendOffline(e) }, must.Get(op.DecodePayload(e.Payload))(w.t).Nonce
	}),
	forgotten("T04d", "a rotation", refusal.Expired, func(w *world) (func() error, string) {
		r := w.request(w.next([]string{w.mallory.line(operational)}, nil))
		e := w.by(r.Payload, w.alice.votes(operational), w.mallory.votes(operational))
		require.NoError(w.t, w.send(r.ID, e))
		require.NoError(w.t, w.runAll())
		w.rotate(nil, []string{w.mallory.print(w.t)}, w.alice.votes(operational))
		return func() error { return w.sendOffline(e) }, r.Nonce
	}),
	replay("T05d", "a spent nonce as the nonce of a rejection", refusal.Replayed, func(w *world, r op.Request) error {
		x := w.destroyRequest()
		rej := must.Get(op.DecodeRejection(w.rejection(x, w.alice).Payload))(w.t)
		rej.Nonce = r.Nonce
		b := must.Get(rej.Encode())(w.t)
		w.arm()
		return failure(w.gate.Reject(w.ctx, hub, x.ID, w.alice.envelope(w.t, b)))
	}),
	{id: "T05e", what: "the nonce that a rejection spent, in an approval", want: refusal.Replayed, run: func(w *world) error {
		r := w.destroyRequest()
		e := w.rejection(r, w.alice)
		must.Get(w.gate.Reject(w.ctx, hub, r.ID, e))(w.t)
		x := w.destroyBecause("a new reason")
		b := w.altered(x, func(p *op.Payload) { p.Nonce = must.Get(op.DecodeRejection(e.Payload))(w.t).Nonce })
		w.arm()
		require.ErrorIs(w.t, w.sendOffline(w.bob.envelope(w.t, b)), refusal.Replayed)
		return w.send(x.ID, w.bob.envelope(w.t, b))
	}},
	{id: "T06c", what: "two are needed: the first signature again, altered by malleability (ECDSA: s and n-s)", want: refusal.ThresholdUnmet,
		run: func(w *world) error {
			erin := keyOf(w.t, "erin", "-t", "ecdsa", "-b", "256")
			w.list(erin.line(operational))
			w.two()
			r := w.destroyRequest()
			sig := erin.forgeBlob(w.t, operational, "", "sha512", r.Payload)
			twin := sig
			twin.inner = otherS(sig.inner)
			require.NoError(w.t, w.send(r.ID, one(r.Payload, armor(sig.bytes()))))
			require.Equal(w.t, 1, w.reread(r.ID).Missing())
			w.arm()
			return w.send(r.ID, one(r.Payload, armor(twin.bytes())))
		}},
	{id: "T06d", what: "two are needed: the first signature again, with sha256, in other lines, and by a touch more", want: refusal.ThresholdUnmet,
		run: func(w *world) error {
			w.list(dora(token(mint.UserPresent))(w))
			w.two()
			r := w.mustSign(w.destroyRequest(), plainVote(token(mint.UserPresent))(w))
			k := mint.SKEd25519(w.t, "token", mint.Authenticator{Application: mint.Application, Flags: mint.UserPresent, Counter: 6})
			w.arm()
			var last error
			for _, v := range []vote{
				minted(k),
				func(t testing.TB, p []byte) string {
					return mint.Armor(mint.Sign(t, token(mint.UserPresent)(w), operational, p).Blob(), 64)
				},
				func(t testing.TB, p []byte) string {
					s := mint.Unsigned(k.Blob(), operational)
					s.Hash = mint.SHA256
					return s.By(t, k, p).Armored()
				},
			} {
				last = w.send(r.ID, w.by(r.Payload, v))
				require.ErrorIs(w.t, last, refusal.ThresholdUnmet)
			}
			return last
		}},
	{id: "T07c", what: "two are needed: the first signature for an earlier request of the same step, with the second for this one", want: refusal.BadSignature,
		run: func(w *world) error {
			w.two()
			old := w.mustSign(w.destroyRequest(), w.alice.votes(operational))
			w.cancel(hub, old.ID.Job)
			r := w.destroyRequest()
			w.arm()
			return w.send(r.ID, w.by(r.Payload, over(w.alice.votes(operational), old.Payload), w.bob.votes(operational)))
		}},
	{id: "T07d", what: "two are needed, one signed, the target changed: the second signs what it was", want: refusal.Superseded, run: func(w *world) error {
		w.two()
		r := w.mustSign(w.destroyRequest(), w.alice.votes(operational))
		guarded(w)
		w.again()
		require.Equal(w.t, 2, w.reread(r.ID).Missing(), "nobody signed for what it is now")
		w.arm()
		return w.send(r.ID, w.by(r.Payload, w.bob.votes(operational)))
	}},
	{id: "T12d", what: "a waiting request's nonce under another payload, by keys of other roles and one that is being added", want: refusal.BindingMismatch,
		run: func(w *world) error {
			r := w.destroyRequest()
			b := w.altered(r, func(p *op.Payload) { p.Target.Name = "bystander" })
			w.arm()
			for _, v := range []vote{w.carol.votes(coordination), w.rita.votes(recovery)} {
				require.ErrorIs(w.t, w.sendOffline(w.by(b, v)), refusal.BindingMismatch)
				require.ErrorIs(w.t, w.send(r.ID, w.by(b, v)), refusal.BindingMismatch)
			}
			rotation := w.altered(r, func(p *op.Payload) {
				p.Op, p.Target, p.Params = "trust.rotate", op.Signers, w.next([]string{w.mallory.line(operational)}, nil).Params
			})
			return w.sendOffline(w.by(rotation, w.mallory.votes(operational)))
		}},
	crowd("T12e", "its nonce under another payload by both: hers still counts", refusal.BindingMismatch, func(w *world, r op.Request) error {
		b := w.altered(r, func(p *op.Payload) { p.Reason = "routine" })
		require.ErrorIs(w.t, w.sendOffline(w.by(b, w.alice.votes(operational), w.bob.votes(operational))), refusal.BindingMismatch)
		return w.send(r.ID, w.by(b, w.bob.votes(operational)))
	}),
	crowd("B14b", "the second signature comes with the envelope of another request", refusal.BindingMismatch, func(w *world, r op.Request) error {
		x := w.request(ask("guest.destroy", "bystander"))
		require.ErrorIs(w.t, w.send(r.ID, w.by(r.Payload, over(w.bob.votes(operational), x.Payload))), refusal.BadSignature)
		return w.send(r.ID, w.by(x.Payload, w.bob.votes(operational)))
	}),
	{id: "B14c", what: "a destroy is approved with the envelope of a rotation, and the reverse", want: refusal.BindingMismatch, run: func(w *world) error {
		a, b := w.destroyRequest(), w.request(w.next(nil, prints(bob)(w)))
		w.arm()
		require.ErrorIs(w.t, w.send(b.ID, w.envelopeOf(a)), refusal.BindingMismatch)
		return w.send(a.ID, w.envelopeOf(b))
	}},
	{id: "X30e", what: "a step is approved that would cool off for longer than its payload lives", want: refusal.Expired, run: func(w *world) error {
		w.rule(policy.Rule{Where: "gated.yaml:3", Op: "guest.destroy", Threshold: 1, CoolOff: 10 * time.Hour})
		r := w.destroyRequest()
		w.pass(15 * time.Hour)
		w.arm()
		w.ends(r.ID, op.StatePending, nonce.Superseded) // it is issued anew, for people to sign in time
		w.allow.repair = func() { w.cancel(hub, r.ID.Job); w.rule() }
		return w.send(r.ID, w.by(r.Payload, w.bob.votes(operational)))
	}},
},
	lateForTwo("g", "rejected", refusal.Rejected, func(w *world, r op.Request) {
		must.Get(w.gate.Reject(w.ctx, hub, r.ID, w.rejection(r, w.bob)))(w.t)
	}),
	lateForTwo("h", "cancelled", refusal.Cancelled, func(w *world, r op.Request) { w.cancel(hub, r.ID.Job) }),
	lateForTwo("i", "superseded", refusal.Superseded, func(w *world, _ op.Request) { remade(w); w.again() }),
	lateForTwo("j", "issued anew, for its payload expired", refusal.Expired, func(w *world, _ op.Request) {
		w.pass(24*time.Hour + gate.Skew + time.Second)
		require.NoError(w.t, w.gate.Tick(w.ctx))
	}),
	late("k", "refused, for its key was revoked", refusal.Replayed, func(w *world, r op.Request) {
		w.mustSign(r, w.bob.votes(operational))
		revokeBob(w)
		require.ErrorIs(w.t, w.runAll(), refusal.SignerRevoked)
	}),
)

// lateForTwo is late for a request that one of two signed: T08 and T11.
func lateForTwo(letter, what string, want refusal.Code, end func(w *world, r op.Request)) []attack {
	out := late(letter, what+", where two are needed and one had signed", want, func(w *world, r op.Request) {
		w.mustSign(r, w.alice.votes(operational))
		end(w, r)
	})
	for i := range out {
		run := out[i].run
		out[i].run = func(w *world) error {
			w.two()
			return run(w)
		}
	}
	return out
}
