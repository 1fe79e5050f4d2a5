package matrix_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"

	"gated/internal/authz"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/people/policy"
	"gated/internal/test/mint"
	"gated/internal/test/must"
)

// vote is a signature that somebody gives over a payload.
type vote func(t testing.TB, payload []byte) string

// votes signs with the key in a namespace.
func (k key) votes(namespace string) vote {
	return func(t testing.TB, payload []byte) string { return k.forge(t, namespace, payload) }
}

// minted signs with a key of package mint as an operator.
func minted(k mint.Key) vote {
	return func(t testing.TB, payload []byte) string { return mint.Sign(t, k, operational, payload).Armored() }
}

// certified signs as an operator with a key that has a certificate.
func certified(c mint.Cert) vote {
	return func(t testing.TB, payload []byte) string {
		return mint.SignWith(t, c, c.Key, operational, payload).Armored()
	}
}

// by is an envelope with everybody's signature.
func (w *world) by(payload []byte, votes ...vote) authz.Envelope {
	w.t.Helper()
	e := authz.Envelope{Payload: payload}
	for _, v := range votes {
		e.Signatures = append(e.Signatures, v(w.t, payload))
	}
	return e
}

// signs hands in votes for a request, which stays as it was or counts them.
func (w *world) signs(r op.Request, votes ...vote) (op.Request, error) {
	w.t.Helper()
	return w.gate.Approve(w.ctx, hub, r.ID, w.by(r.Payload, votes...))
}

// mustSign is signs where the votes count.
func (w *world) mustSign(r op.Request, votes ...vote) op.Request {
	w.t.Helper()
	return must.Get(w.signs(r, votes...))(w.t)
}

// unmet is the outcome of votes that counted and are not enough: a refusal, as
// the caller sees it from the request's state and what is missing.
func (w *world) unmet(missing int) func(op.Request, error) error {
	return func(r op.Request, err error) error {
		w.t.Helper()
		if err != nil {
			return err
		}
		if r.Step.State != op.StatePending {
			return nil
		}
		require.Equal(w.t, missing, r.Missing())
		w.allow.loggedAs, w.allow.counted = "signed", true
		return refusal.New(refusal.PendingSignature, "%s waits", r.ID)
	}
}

// list adds lines to the trust file, from root's hands.
func (w *world) list(lines ...string) {
	w.t.Helper()
	for _, l := range lines {
		w.trust += l
	}
	w.restart()
}

// revoke puts keys on the list of those that count no more.
func (w *world) revoke(keys ...string) {
	w.t.Helper()
	text := ""
	for _, k := range keys {
		text += k + "\n"
	}
	list := must.Get(authz.LoadRevoked([]byte(text)))(w.t)
	w.revoked = list
	w.reload()
}

// pardon empties that list.
func (w *world) pardon() {
	w.revoked = nil
	w.reload()
}

// rule puts rules in force, by a reload, as SIGHUP does.
func (w *world) rule(rules ...policy.Rule) {
	w.t.Helper()
	w.rules.Roles, w.rules.Rules = []op.Role{"manager"}, rules
	w.reload()
}

func (w *world) reload() {
	w.t.Helper()
	require.NoError(w.t, w.gate.Reload(w.ctx, w.revoked, w.rules))
}

// two asks for two operators to destroy anything.
func two() policy.Rule { return policy.Rule{Where: "gated.yaml:3", Op: "guest.destroy", Threshold: 2} }

// two is a world in which a destroy takes two, and mona is a manager.
func (w *world) two() {
	w.t.Helper()
	w.rule(two())
	w.seconds = []vote{w.bob.votes(operational)}
}

// print returns the key's SHA256 fingerprint.
func (k key) print(t testing.TB) string {
	t.Helper()
	return ssh.FingerprintSHA256(k.signer(t).PublicKey())
}

// crowd is a row about a request that needs two people, of whom alice has
// signed. The attack hands in something that is to be the second.
func crowd(id, what string, want refusal.Code, second func(w *world, r op.Request) error) attack {
	return attack{id: id, what: "two people are needed, alice signed, then " + what, want: want, run: func(w *world) error {
		w.two()
		r := w.destroyRequest()
		r = w.mustSign(r, w.alice.votes(operational))
		require.Equal(w.t, 1, r.Missing())
		w.arm()
		return second(w, r)
	}}
}
