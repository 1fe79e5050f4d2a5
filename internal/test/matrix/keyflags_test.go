package matrix_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/people/policy"
	"gated/internal/test/mint"
)

// listed is a row in which a line is in the trust file, and its holder signs in
// a way that does not count. Both end points refuse it.
func listed(id, what string, want refusal.Code, line func(w *world) string, sig func(w *world) vote) attack {
	a := listedAlone(id, what, want, line, sig)
	run := a.run
	a.run = func(w *world) error {
		require.Contains(w.t, w.trust, line(w), "the shared world lists it")
		return run(w)
	}
	return a.on(anyKeys)
}

// keyLines are the lines of the world that these rows share.
func keyLines(w *world) []string {
	out := []string{caLine(w)}
	for _, k := range []func(*world) mint.Key{token(0), ecToken(0), rsaKey, doraKey} {
		out = append(out, dora(k)(w))
	}
	return out
}

func doraKey(w *world) mint.Key { return mint.Ed25519(w.t, "dora") }

// listedAlone is listed with a line that other rows do not bear.
func listedAlone(id, what string, want refusal.Code, line func(w *world) string, sig func(w *world) vote) attack {
	return attack{id: id, what: what, want: want, run: func(w *world) error {
		if !strings.Contains(w.trust, line(w)) {
			w.list(line(w))
		}
		r := w.destroyRequest()
		fresh := w.freshPayload(r)
		w.arm()
		require.ErrorIs(w.t, w.sendOffline(w.by(fresh, sig(w))), want)
		return w.send(r.ID, w.by(r.Payload, sig(w)))
	}}
}

// dora is an operator whose key is one of package mint's.
func dora(k func(w *world) mint.Key, options ...string) func(w *world) string {
	return func(w *world) string { return k(w).Line("dora@example.com", lineOptions(operational, options...)) }
}

func lineOptions(namespaces string, more ...string) string {
	out := `namespaces="` + namespaces + `"`
	for _, o := range more {
		out += "," + o
	}
	return out
}

// token is a security key that says these flags.
func token(flags byte) func(w *world) mint.Key {
	return func(w *world) mint.Key {
		return mint.SKEd25519(w.t, "token", mint.Authenticator{Application: mint.Application, Flags: flags, Counter: 5})
	}
}

// ecToken is another, with ECDSA.
func ecToken(flags byte) func(w *world) mint.Key {
	return func(w *world) mint.Key {
		return mint.SKECDSA(w.t, "token", mint.Authenticator{Application: mint.Application, Flags: flags, Counter: 5})
	}
}

func plainVote(k func(w *world) mint.Key) func(w *world) vote {
	return func(w *world) vote { return minted(k(w)) }
}

// reflagged signs with one set of flags and claims another.
func reflagged(k func(w *world) mint.Key, change func(rest []byte)) func(w *world) vote {
	return func(w *world) vote {
		return func(t testing.TB, payload []byte) string {
			s := mint.Sign(t, k(w), operational, payload)
			change(s.Rest)
			return s.Armored()
		}
	}
}

// touchRule asks for a touch in a role.
func touchRule(role op.Role, touch op.Touch) policy.Rule {
	return policy.Rule{Where: "gated.yaml:3", Role: role, Threshold: 1, Touch: touch}
}

// untouched is a row in which a rule asks for more than the signature attests.
func untouched(id, what string, line func(w *world) string, sig func(w *world) vote, rules ...policy.Rule) attack {
	return attack{id: id, what: what, want: refusal.TouchRequired, run: func(w *world) error {
		verified := token(mint.UserPresent | mint.UserVerified)(w)
		w.list(line(w), verified.Line("vera@example.com", lineOptions(operational)))
		r := w.destroyRequest()
		w.rule(rules...)
		fresh := w.freshPayload(r)
		w.arm()
		w.allow.repair = func() { w.rule() }
		require.ErrorIs(w.t, w.sendOffline(w.by(fresh, sig(w))), refusal.TouchRequired)
		return w.send(r.ID, w.by(r.Payload, sig(w)))
	}}
}

var touchRows = []attack{
	listed("S08a", "a listed ed25519 security key signs without a touch", refusal.TouchRequired, dora(token(0)), plainVote(token(0))),
	listed("S08b", "a listed ecdsa security key signs without a touch", refusal.TouchRequired, dora(ecToken(0)), plainVote(ecToken(0))),
	listed("S08c", "a security key says that it verified somebody who was not there", refusal.TouchRequired, dora(token(0)),
		plainVote(token(mint.UserVerified))),
	listed("S08d", "every flag but the touch", refusal.TouchRequired, dora(ecToken(0)), plainVote(ecToken(^mint.UserPresent))),
	listed("S08e", "the flag of the touch is set after the signature", refusal.BadSignature, dora(token(0)),
		reflagged(token(0), func(rest []byte) { rest[0] |= mint.UserPresent })),
	listed("S08f", "the counter is another than was signed", refusal.BadSignature, dora(ecToken(0)),
		reflagged(ecToken(mint.UserPresent), func(rest []byte) { rest[4]++ })),
	listed("S08g", "a certificate allows its security key to sign without a touch", refusal.TouchRequired, caLine, func(w *world) vote {
		c := mint.Certify(theCA(w), token(0)(w), "dora@example.com")
		c.Extensions = append([]mint.Option{{Name: "no-touch-required"}}, c.Extensions...)
		return certified(c)
	}),
	listed("S08h", "a certificate asks for a verified user, and the key was only touched", refusal.TouchRequired, caLine, func(w *world) vote {
		c := mint.Certify(theCA(w), token(mint.UserPresent)(w), "dora@example.com")
		c.Critical = []mint.Option{{Name: "verify-required"}}
		return certified(c)
	}),
	listedAlone("S08i", "a CA on a security key certifies without a touch", refusal.TouchRequired,
		func(w *world) string {
			return token(0)(w).Line("*@example.com", "cert-authority,"+lineOptions(operational))
		},
		func(w *world) vote {
			return certified(mint.Certify(token(0)(w), mint.Ed25519(w.t, "dora"), "dora@example.com"))
		}),
	listed("S08j", "a security key that was made for a web site", refusal.Malformed, func(*world) string { return "" }, func(w *world) vote {
		return minted(mint.SKEd25519(w.t, "web", mint.Authenticator{Application: "https://example.com", Flags: mint.UserPresent}))
	}),
	{id: "S08k", what: "a rejection by a security key without a touch", want: refusal.TouchRequired, run: func(w *world) error {
		w.list(dora(token(0))(w))
		r := w.destroyRequest()
		e := w.rejection(r, w.alice)
		e = w.by(e.Payload, minted(token(0)(w)))
		w.arm()
		return failure(w.gate.Reject(w.ctx, hub, r.ID, e))
	}},
	untouched("S08l", "a rule asks for a touch, and a key file signs", func(*world) string { return "" },
		func(w *world) vote { return w.alice.votes(operational) }, touchRule("", op.TouchPresent)),
	untouched("S08m", "a rule asks for a verified user, and a security key was only touched",
		dora(ecToken(0)), plainVote(ecToken(mint.UserPresent)), touchRule(op.Operational, op.TouchVerified)),
	untouched("S08n", "two rules, and the weaker one is met", dora(ecToken(0)), plainVote(ecToken(mint.UserPresent)),
		touchRule(op.Operational, op.TouchVerified), touchRule("", op.TouchPresent)),
	listed("S09a", "RSA with 2048 bits", refusal.WeakKey, func(*world) string { return "" }, func(w *world) vote {
		return func(t testing.TB, payload []byte) string {
			return keyOf(t, "rsa2048", "-t", "rsa", "-b", "2048").keygen(t, operational, payload)
		}
	}),
	listed("S09b", "RSA with SHA-1, by a listed key", refusal.WeakKey, dora(rsaKey), func(w *world) vote {
		return func(t testing.TB, payload []byte) string {
			return mint.Unsigned(rsaKey(w).Blob(), operational).As(t, rsaKey(w), "ssh-rsa", payload).Armored()
		}
	}),
	listed("S09c", "RSA with SHA-1 that says it is SHA-512", refusal.BadSignature, dora(rsaKey), func(w *world) vote {
		return func(t testing.TB, payload []byte) string {
			s := mint.Unsigned(rsaKey(w).Blob(), operational).As(t, rsaKey(w), "ssh-rsa", payload)
			s.Format = "rsa-sha2-512"
			return s.Armored()
		}
	}),
	listed("S09d", "DSA", refusal.WeakKey, func(*world) string { return "" }, func(w *world) vote { return minted(mint.DSA(w.t, "dsa")) }),
}

// rsaKey is a key of 3,072 bits, made once.
func rsaKey(w *world) mint.Key { return mint.RSA(w.t, "matrix", 3072) }
