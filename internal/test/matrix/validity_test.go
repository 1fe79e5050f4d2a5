package matrix_test

import (
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/authz"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/nonce"
)

// between is an operator's line that is valid from 10 s after a world's
// beginning to 20 s after it.
func between(w *world) string {
	const layout = "20060102150405Z"
	return w.mallory.line(operational, `valid-after="`+w.now().Add(10*time.Second).Format(layout)+`"`,
		`valid-before="`+w.now().Add(20*time.Second).Format(layout)+`"`)
}

// signsAt moves the clock to that long after begin and has mallory, whom
// between lists, sign.
func (w *world) signsAt(begin time.Time, after time.Duration, r op.Request) error {
	w.t.Helper()
	w.pass(begin.Add(after).Sub(w.now()))
	return w.send(r.ID, w.by(r.Payload, w.mallory.votes(operational)))
}

// validityRows are S13, and S14: keys whose time is not now, or over for good.
var validityRows = []attack{
	{id: "S13a", what: "a key signs a second before its valid-after", want: refusal.SignerExpired, run: func(w *world) error {
		w.list(between(w))
		begin, r := w.now(), w.destroyRequest()
		w.arm()
		return w.signsAt(begin, 9*time.Second, r)
	}},
	{id: "S13b", what: "a key signs at its valid-after and at its valid-before, which counts, and a second later", want: refusal.SignerExpired,
		run: func(w *world) error {
			w.list(between(w))
			begin := w.now()
			w.makeGuest("first")
			w.makeGuest("last")
			first, last, r := w.request(ask("guest.destroy", "first")), w.request(ask("guest.destroy", "last")), w.destroyRequest()
			require.NoError(w.t, w.signsAt(begin, 10*time.Second, first))
			require.NoError(w.t, w.signsAt(begin, 20*time.Second, last))
			require.NoError(w.t, w.runAll())
			require.False(w.t, w.observe("first").Present || w.observe("last").Present)
			w.arm()
			return w.signsAt(begin, 21*time.Second, r)
		}},
	{id: "S13c", what: "a key's valid-before passes between the approval and the execution", want: refusal.SignerExpired, run: func(w *world) error {
		w.list(between(w))
		begin, r := w.now(), w.destroyRequest()
		require.NoError(w.t, w.signsAt(begin, 20*time.Second, r))
		w.pass(time.Second)
		w.arm()
		err := w.executor().execute(w.ctx, r.ID)
		require.Equal(w.t, op.StateRefused, w.stepOf(r.ID).State)
		require.Equal(w.t, nonce.Used, w.nonceRows()[r.Nonce].fate)
		return err
	}},
	{id: "S13d", what: "a rejection by a key whose valid-before has passed", want: refusal.SignerExpired, run: func(w *world) error {
		w.list(between(w))
		w.pass(21 * time.Second)
		r := w.destroyRequest()
		w.arm()
		_, err := w.gate.Reject(w.ctx, hub, r.ID, w.by(w.rejection(r, w.alice).Payload, w.mallory.votes(operational)))
		return err
	}},
	revokedBy("S14a", "a revoked key, named by its fingerprint", func(w *world) string { return w.bob.print(w.t) },
		func(w *world) vote { return w.bob.votes(operational) }),
	revokedBy("S14b", "a revoked key, named by itself", func(w *world) string { return w.bob.pub },
		func(w *world) vote { return w.bob.votes(operational) }),
	revokedBy("S14c", "a key that a revoked CA certified", func(w *world) string { return theCA(w).Fingerprint() },
		func(w *world) vote { return certified(doraCert(w)) }),
	revokedBy("S14d", "a revoked key, in a certificate of a good CA", func(w *world) string { return doraCert(w).Key.Fingerprint() },
		func(w *world) vote { return certified(doraCert(w)) }),
	revokedBy("S14e", "a key that is revoked by its certificate, in another certificate", func(w *world) string { return doraCert(w).Text(w.t) },
		func(w *world) vote {
			c := doraCert(w)
			c.Serial = 77
			return certified(c)
		}),
	revokedBy("S14f", "a key that a revoked CA certified, the CA named by its key",
		func(w *world) string { return "# lost\n" + theCA(w).Text() + " the old CA" }, func(w *world) vote { return certified(doraCert(w)) }),
	{id: "S14g", what: "a rejection by a revoked key", want: refusal.SignerRevoked, run: func(w *world) error {
		w.revoke(w.bob.print(w.t))
		r := w.destroyRequest()
		w.arm()
		return failure(w.gate.Reject(w.ctx, hub, r.ID, w.rejection(r, w.bob)))
	}},
	{id: "S14h", what: "a revoked key that is listed for recovery signs a rotation alone", want: refusal.SignerRevoked, run: func(w *world) error {
		w.revoke(w.rita.print(w.t))
		r := w.request(w.next(nil, []string{w.bob.print(w.t)}))
		w.arm()
		return failure(w.signs(r, w.rita.votes("recovery@gated")))
	}},
	{id: "S14i", what: "a revoked key proves possession, to be added again", want: refusal.BadParams, run: func(w *world) error {
		w.revoke(w.mallory.print(w.t))
		w.arm()
		return failure(w.submit(hub, w.next([]string{w.mallory.line(operational)}, nil)))
	}},
	{id: "S14j", what: "a revocation file with a line that is none: nobody knows who is revoked", want: refusal.Unavailable, run: func(w *world) error {
		r := w.destroyRequest()
		_, err := authz.LoadRevoked([]byte(w.mallory.pub + "\nmallory\n"))
		require.ErrorContains(w.t, err, "line 2: ")
		require.NoError(w.t, w.gate.Reload(w.ctx, authz.UnreadableRevoked(err), w.rules))
		w.arm()
		w.allow.repair = w.reload
		return w.send(r.ID, w.envelopeOf(r))
	}},
	{id: "S14k", what: "the revocation file cannot be read any more between approval and execution: it waits", want: refusal.Unavailable,
		run: func(w *world) error {
			r := w.destroyRequest()
			w.mustApprove(r)
			require.NoError(w.t, w.gate.Reload(w.ctx, authz.UnreadableRevoked(refusal.Unavailable), w.rules))
			w.arm()
			w.allow.runs = true
			w.allow.repair = w.reload
			err := w.executor().execute(w.ctx, r.ID)
			require.Equal(w.t, op.StateAuthorized, w.stepOf(r.ID).State)
			return err
		}},
}

// revokedBy is a row in which the CA is listed, what names on the revocation
// file, and sig signs.
func revokedBy(id, what string, name func(w *world) string, sig func(w *world) vote) attack {
	return attack{id: id, what: what, want: refusal.SignerRevoked, run: func(w *world) error {
		w.list(caLine(w))
		r := w.destroyRequest()
		fresh := w.freshPayload(r)
		w.revoke(name(w))
		w.arm()
		require.ErrorIs(w.t, w.sendOffline(w.by(fresh, sig(w))), refusal.SignerRevoked)
		return w.send(r.ID, w.by(r.Payload, sig(w)))
	}}
}
