package matrix_test

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/gate"
	"gated/internal/nonce"
	"gated/internal/test/must"
)

// timed is a row in which an offline payload's times are what is wrong.
func timed(id, what string, want refusal.Code, from, length time.Duration) attack {
	return attack{id: id, what: what, want: want, run: func(w *world) error {
		r := w.destroyRequest()
		b := w.altered(r, func(p *op.Payload) {
			p.Nonce = op.NewNonce(time.Now())
			p.IssuedAt = w.now().Add(from)
			p.ExpiresAt = p.IssuedAt.Add(length)
		})
		w.arm()
		return w.sendOffline(w.alice.envelope(w.t, b))
	}}
}

// boundary is a row in which a payload counts at a second, and one whose times
// are off by a second more does not.
func boundary(id, what string, want refusal.Code, after time.Duration, change func(now time.Time, off time.Duration, p *op.Payload)) attack {
	return attack{id: id, what: what, want: want, run: func(w *world) error {
		began := w.now()
		sign := func(name string, off time.Duration) []byte {
			w.makeGuest(name)
			r := w.request(ask("guest.destroy", name))
			b := w.altered(r, func(p *op.Payload) { p.Nonce = op.NewNonce(time.Now()); change(began, off, p) })
			must.Get(w.gate.Cancel(w.ctx, hub, r.ID.Job))(w.t)
			return b
		}
		good, bad := sign("at", 0), sign("beyond", time.Second)
		w.pass(after)
		require.NoError(w.t, w.sendOffline(w.alice.envelope(w.t, good)), "exactly at the boundary it counts")
		require.NoError(w.t, w.runAll())
		w.arm()
		return w.sendOffline(w.alice.envelope(w.t, bad))
	}}
}

var timeRows = append([]attack{
	timed("T01a", "expired", refusal.Expired, -2*time.Hour, time.Hour),
	timed("T01b", "not yet valid", refusal.NotYetValid, time.Hour, time.Hour),
	timed("T01c", "valid for a second longer than allowed", refusal.ValidityTooLong, 0, 24*time.Hour+time.Second),
	boundary("T01d", "a second after its end and the skew", refusal.Expired, time.Hour+gate.Skew,
		func(now time.Time, off time.Duration, p *op.Payload) {
			p.IssuedAt, p.ExpiresAt = now, now.Add(time.Hour-off)
		}),
	boundary("T01e", "a second before its beginning and the skew", refusal.NotYetValid, 0,
		func(now time.Time, off time.Duration, p *op.Payload) {
			p.IssuedAt = now.Add(gate.Skew + off)
			p.ExpiresAt = p.IssuedAt.Add(time.Hour)
		}),
	{id: "T01f", what: "a request's own payload a day later, before it is issued anew", want: refusal.Expired, run: func(w *world) error {
		r := w.destroyRequest()
		w.pass(24*time.Hour + gate.Skew + time.Second)
		w.arm()
		return w.send(r.ID, w.envelopeOf(r))
	}},
	{id: "T01g", what: "approved in time, executed after it expired", want: refusal.Expired, run: func(w *world) error {
		r := w.destroyRequest()
		w.mustApprove(r)
		w.pass(24*time.Hour + gate.Skew + time.Second)
		w.arm()
		return w.executor().execute(w.ctx, r.ID)
	}},
	{id: "T04a", what: "replay after old nonces were forgotten and the clock was set back", want: refusal.Expired, run: func(w *world) error {
		w.makeGuest("gone")
		r := w.request(ask("guest.destroy", "gone"))
		w.mustApprove(r)
		require.NoError(w.t, w.runAll())
		w.pass(30 * time.Hour)
		require.NoError(w.t, w.gate.Tick(w.ctx))
		require.NotContains(w.t, w.nonceRows(), r.Nonce, "it was to be forgotten")
		w.do("guest.undelete", "gone") // the same incarnation, as it was when it was signed
		w.setClock(-30 * time.Hour)
		w.restart()
		w.arm()
		w.allow.repair = func() { w.setClock(30 * time.Hour) }
		require.ErrorIs(w.t, w.sendOffline(w.envelopeOf(r)), refusal.Expired)
		return w.send(r.ID, w.envelopeOf(r))
	}},
	{id: "T15a", what: "the clock jumps 70 years ahead: signed work waits", want: refusal.Unavailable, run: func(w *world) error {
		r := w.destroyRequest()
		w.setClock(70 * 365 * 24 * time.Hour)
		w.arm()
		require.NoError(w.t, w.gate.Tick(w.ctx))
		w.allow.repair = func() { w.setClock(-70 * 365 * 24 * time.Hour) }
		return w.send(r.ID, w.envelopeOf(r))
	}},
	{id: "T15b", what: "the clock jumps after the approval: the step waits, and runs when it is right again", want: refusal.Unavailable,
		run: func(w *world) error {
			r := w.destroyRequest()
			w.mustApprove(r)
			w.setClock(70 * 365 * 24 * time.Hour)
			w.arm()
			err := w.executor().execute(w.ctx, r.ID)
			require.Equal(w.t, op.StateAuthorized, w.stepOf(r.ID).State)
			w.allow.runs = true
			w.allow.repair = func() { w.setClock(-70 * 365 * 24 * time.Hour) }
			return err
		}},
	{id: "T15c", what: "70 years ahead, a restart, back, and a replay", want: refusal.Replayed, run: func(w *world) error {
		w.makeGuest("gone")
		r := w.request(ask("guest.destroy", "gone"))
		w.mustApprove(r)
		require.NoError(w.t, w.runAll())
		w.do("guest.undelete", "gone")
		w.setClock(70 * 365 * 24 * time.Hour)
		w.restart()
		require.NoError(w.t, w.gate.Tick(w.ctx))
		w.setClock(-70 * 365 * 24 * time.Hour)
		w.restart()
		w.arm()
		require.ErrorIs(w.t, w.sendOffline(w.envelopeOf(r)), refusal.Replayed)
		return w.send(r.ID, w.envelopeOf(r))
	}},
}, nonceRows...)

// spent makes a guest, destroys it by a signature and brings it back, so that
// the used approval fits the host exactly.
func (w *world) spent() op.Request {
	w.t.Helper()
	w.makeGuest("gone")
	r := w.request(ask("guest.destroy", "gone"))
	w.mustApprove(r)
	require.NoError(w.t, w.runAll())
	w.do("guest.undelete", "gone")
	require.Equal(w.t, r.Step.Incarnation, w.observe("gone").Incarnation)
	return r
}

// replay is a row in which what was used once is sent once more, to both end
// points.
func replay(id, what string, want refusal.Code, send func(w *world, r op.Request) error) attack {
	return attack{id: id, what: what, want: want, run: func(w *world) error {
		r := w.spent()
		w.arm()
		return send(w, r)
	}}
}

// late is a row in which an approval comes after the request's end. Offline it
// is T11.
func late(letter, what string, want refusal.Code, end func(w *world, r op.Request)) []attack {
	run := func(send func(w *world, r op.Request) error) func(*world) error {
		return func(w *world) error {
			r := w.destroyRequest()
			end(w, r)
			w.arm()
			return send(w, r)
		}
	}
	return []attack{
		{id: "T08" + letter, what: "an approval after the request was " + what, want: want, run: run(func(w *world, r op.Request) error {
			return w.send(r.ID, w.envelopeOf(r))
		})},
		{id: "T11" + letter, what: "the payload, sent as an offline operation after the request was " + what, want: want,
			run: run(func(w *world, r op.Request) error { return w.sendOffline(w.envelopeOf(r)) })},
	}
}

// at64 sends one envelope 64 times at once and returns the refusals.
func at64(w *world, send func() error) error {
	errs := make([]error, 64)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() { errs[i] = send() })
	}
	wg.Wait()
	counted := 0
	var last error
	for _, err := range errs {
		if err == nil {
			counted++
			continue
		}
		require.ErrorIs(w.t, err, refusal.Replayed)
		last = err
	}
	require.Equal(w.t, 1, counted, "one of 64 counts")
	return last
}

var replayRows = slices.Concat([]attack{
	replay("T02a", "the same envelope twice", refusal.Replayed, func(w *world, r op.Request) error {
		require.ErrorIs(w.t, w.sendOffline(w.envelopeOf(r)), refusal.Replayed)
		return w.send(r.ID, w.envelopeOf(r))
	}),
	{id: "T02b", what: "the same envelope 64 times at once", want: refusal.Replayed, run: func(w *world) error {
		r := w.destroyRequest()
		e := w.envelopeOf(r)
		w.arm()
		w.ends(r.ID, op.StateAuthorized, nonce.Used)
		w.allow.runs = true
		return at64(w, func() error { return w.send(r.ID, e) })
	}},
	{id: "T02c", what: "the same offline envelope 64 times at once", want: refusal.Replayed, run: func(w *world) error {
		r := w.destroyRequest()
		e := w.alice.envelope(w.t, w.freshPayload(r))
		must.Get(w.gate.Cancel(w.ctx, hub, r.ID.Job))(w.t)
		w.arm()
		w.ends(op.RequestID{Job: r.ID.Job + 1, Index: 1}, op.StateAuthorized, nonce.Used)
		w.allow.runs = true
		return at64(w, func() error { return w.sendOffline(e) })
	}},
	replay("T03a", "replay after a restart", refusal.Replayed, func(w *world, r op.Request) error {
		w.restart()
		require.ErrorIs(w.t, w.sendOffline(w.envelopeOf(r)), refusal.Replayed)
		return w.send(r.ID, w.envelopeOf(r))
	}),
	replay("T05a", "a spent nonce in another payload by the same signer", refusal.Replayed, func(w *world, r op.Request) error {
		b := w.altered(r, func(p *op.Payload) { p.Reason = "again" })
		require.ErrorIs(w.t, w.sendOffline(w.alice.envelope(w.t, b)), refusal.Replayed)
		return w.send(r.ID, w.alice.envelope(w.t, b))
	}),
	replay("T05b", "a spent nonce in another payload by another signer", refusal.Replayed, func(w *world, r op.Request) error {
		b := w.altered(r, func(p *op.Payload) { p.Reason = "again" })
		require.ErrorIs(w.t, w.sendOffline(w.bob.envelope(w.t, b)), refusal.Replayed)
		return w.send(r.ID, w.bob.envelope(w.t, b))
	}),
	replay("T05c", "a spent nonce under a payload for another guest", refusal.Replayed, func(w *world, r op.Request) error {
		x := w.destroyRequest()
		w.arm()
		b := w.altered(x, func(p *op.Payload) { p.Nonce = r.Nonce })
		require.ErrorIs(w.t, w.sendOffline(w.alice.envelope(w.t, b)), refusal.Replayed)
		return w.send(x.ID, w.alice.envelope(w.t, b))
	}),
	replay("T06a", "the same payload signed again, by another operator", refusal.Replayed, func(w *world, r op.Request) error {
		require.ErrorIs(w.t, w.sendOffline(w.bob.envelope(w.t, r.Payload)), refusal.Replayed)
		return w.send(r.ID, w.bob.envelope(w.t, r.Payload))
	}),
	{id: "T06b", what: "the signature's bytes altered by malleability (ECDSA: s and n-s), validly", want: refusal.Replayed, run: func(w *world) error {
		erin := keyOf(w.t, "erin", "-t", "ecdsa", "-b", "256")
		w.trust += erin.line(operational)
		w.restart()
		w.makeGuest("gone")
		r := w.request(ask("guest.destroy", "gone"))
		sig := erin.forgeBlob(w.t, operational, "", "sha512", r.Payload)
		twin := sig
		twin.inner = otherS(sig.inner)
		require.NotEqual(w.t, sig.inner, twin.inner)
		require.NoError(w.t, w.send(r.ID, one(r.Payload, armor(sig.bytes()))))
		require.NoError(w.t, w.runAll())
		w.do("guest.undelete", "gone")
		w.arm()
		require.ErrorIs(w.t, w.sendOffline(one(r.Payload, armor(twin.bytes()))), refusal.Replayed)
		return w.send(r.ID, one(r.Payload, armor(twin.bytes())))
	}},
	replay("T07a", "the approval of an earlier request of the same step", refusal.Replayed, func(w *world, r op.Request) error {
		again := w.request(ask("guest.destroy", "gone"))
		w.arm()
		w.allow.finale = []string{"gone"}
		return w.send(again.ID, w.envelopeOf(r))
	}),
	{id: "T07b", what: "the approval of another open request of the same step", want: refusal.BindingMismatch, run: func(w *world) error {
		r := w.destroyRequest()
		j, err := w.submit(other, ask("guest.snapshot", "bystander", "snapshot", "s"), ask("guest.destroy", "victim"))
		require.NoError(w.t, err)
		w.arm()
		return w.send(j.Steps[1].ID, w.envelopeOf(r))
	}},
	{id: "T09a", what: "an idempotency key with another body", want: refusal.Conflict, run: func(w *world) error {
		sub := op.Submission{Requester: hub, Steps: []op.Ask{ask("guest.destroy", "victim")}, IdempotencyKey: "k"}
		first := must.Get(w.gate.Submit(w.ctx, sub))(w.t)
		w.arm()
		again := must.Get(w.gate.Submit(w.ctx, sub))(w.t)
		require.Equal(w.t, first.ID, again.ID, "the same body gets the first answer")
		sub.Steps = []op.Ask{ask("guest.destroy", "bystander")}
		return failure(w.gate.Submit(w.ctx, sub))
	}},
	{id: "T12a", what: "a waiting request's nonce under another payload, by each listed key", want: refusal.BindingMismatch,
		run: func(w *world) error {
			r := w.destroyRequest()
			b := w.altered(r, func(p *op.Payload) { p.Target.Name = "bystander" })
			w.arm()
			require.ErrorIs(w.t, w.sendOffline(w.alice.envelope(w.t, b)), refusal.BindingMismatch)
			require.ErrorIs(w.t, w.send(r.ID, w.bob.envelope(w.t, b)), refusal.BindingMismatch)
			return w.sendOffline(w.bob.envelope(w.t, b))
		}},
	{id: "T12b", what: "a waiting request's nonce as the nonce of a rejection", want: refusal.Malformed, run: func(w *world) error {
		r := w.destroyRequest()
		e := w.rejection(r, w.alice)
		rej := must.Get(op.DecodeRejection(e.Payload))(w.t)
		rej.Nonce = r.Nonce
		b := must.Get(rej.Encode())(w.t)
		w.arm()
		return failure(w.gate.Reject(w.ctx, hub, r.ID, w.alice.envelope(w.t, b)))
	}},
	{id: "T12c", what: "a waiting request's nonce as the nonce of the rejection of another", want: refusal.Replayed, run: func(w *world) error {
		r, x := w.destroyRequest(), w.request(ask("guest.destroy", "bystander"))
		rej := must.Get(op.DecodeRejection(w.rejection(x, w.alice).Payload))(w.t)
		rej.Nonce = r.Nonce
		b := must.Get(rej.Encode())(w.t)
		w.arm()
		return failure(w.gate.Reject(w.ctx, hub, x.ID, w.alice.envelope(w.t, b)))
	}},
},
	late("a", "rejected", refusal.Rejected, func(w *world, r op.Request) {
		must.Get(w.gate.Reject(w.ctx, hub, r.ID, w.rejection(r, w.bob)))(w.t)
	}),
	late("b", "cancelled", refusal.Cancelled, func(w *world, r op.Request) {
		must.Get(w.gate.Cancel(w.ctx, hub, r.ID.Job))(w.t)
	}),
	late("c", "superseded", refusal.Superseded, func(w *world, _ op.Request) { remade(w); w.again() }),
	late("d", "issued anew, for the target changed", refusal.Superseded, func(w *world, _ op.Request) { guarded(w); w.again() }),
	late("e", "issued anew, for its payload expired", refusal.Expired, func(w *world, _ op.Request) {
		w.pass(24*time.Hour + gate.Skew + time.Second)
		require.NoError(w.t, w.gate.Tick(w.ctx))
	}),
	late("f", "done", refusal.Replayed, func(w *world, r op.Request) {
		w.mustApprove(r)
		require.NoError(w.t, w.runAll())
		w.do("guest.undelete", strings.TrimPrefix(r.Step.Target.String(), "guest/"))
	}),
)
