package matrix_test

import (
	"strings"

	"github.com/stretchr/testify/require"

	"gated/internal/authz"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

const operational = "operational@gated"

func one(payload []byte, armored string) authz.Envelope {
	return authz.Envelope{Payload: payload, Signatures: []string{armored}}
}

// signed is a row in which a request's payload gets a signature that is not one
// that counts.
func signed(id, what string, want refusal.Code, sig func(w *world, payload []byte) string) attack {
	return attack{id: id, what: what, want: want, run: func(w *world) error {
		r := w.destroyRequest()
		e := one(r.Payload, sig(w, r.Payload))
		w.arm()
		return w.send(r.ID, e)
	}}.on(anyGuests)
}

// reblobbed is signed with alice's good signature, changed inside.
func reblobbed(id, what string, want refusal.Code, change func(*blob)) attack {
	return signed(id, what, want, func(w *world, p []byte) string {
		b := w.alice.forgeBlob(w.t, operational, "", "sha512", p)
		change(&b)
		return armor(b.bytes())
	})
}

// rearmored is signed with alice's good signature, changed as text.
func rearmored(id, what string, change func(string) string) attack {
	return signed(id, what, refusal.Malformed, func(w *world, p []byte) string { return change(w.alice.keygen(w.t, operational, p)) })
}

func inNamespace(id, ns string) attack {
	return signed(id, "a listed key's valid signature in the namespace '"+ns+"'", refusal.NamespaceMismatch,
		func(w *world, p []byte) string { return w.alice.forge(w.t, ns, p) })
}

var signatureRows = []attack{
	{id: "S01a", what: "a destructive job that nobody signed", want: refusal.PendingSignature, run: func(w *world) error {
		w.arm()
		return w.waits(w.submit(hub, ask("guest.destroy", "victim")))
	}},
	{id: "S01b", what: "an approval with no signature in it", want: refusal.Malformed, run: func(w *world) error {
		r := w.destroyRequest()
		w.arm()
		return w.send(r.ID, authz.Envelope{Payload: r.Payload})
	}},
	{id: "S01c", what: "executing the step that waits, without asking", want: refusal.Conflict, run: func(w *world) error {
		r := w.destroyRequest()
		w.armUnlogged("asking for a permit decides nothing")
		return w.executor().execute(w.ctx, r.ID)
	}},
	{id: "S02", what: "desired state says absent, and nobody signed", want: refusal.PendingSignature, run: func(w *world) error {
		w.arm()
		w.apply(map[string]string{"hub": document("  - name: victim\n    state: absent\n")})
		return w.planned("victim")
	}},
	signed("S03a", "a signature by a key that is not listed, made with ssh-keygen", refusal.UnknownSigner,
		func(w *world, p []byte) string { return w.mallory.keygen(w.t, operational, p) }),
	{id: "S03b", what: "an offline operation by a key that is not listed", want: refusal.UnknownSigner, run: func(w *world) error {
		r := w.destroyRequest()
		b := w.altered(r, func(p *op.Payload) { p.Nonce = "QUJDREVGR0hJSktMTU5PUA" })
		w.arm()
		return w.sendOffline(w.mallory.envelope(w.t, b))
	}},
	signed("S03c", "an unlisted RSA key of a type that could be listed", refusal.UnknownSigner, func(w *world, p []byte) string {
		return keyOf(w.t, "mallory-rsa", "-t", "rsa", "-b", "3072").keygen(w.t, operational, p)
	}),
	signed("S04a", "a listed key's signature over other bytes", refusal.BadSignature,
		func(w *world, p []byte) string { return w.alice.keygen(w.t, operational, append(p, '\n')) }),
	{id: "S04b", what: "one bit flipped at each byte of the payload", want: refusal.BadSignature, run: func(w *world) error {
		r := w.destroyRequest()
		good := w.alice.forge(w.t, operational, r.Payload)
		w.arm()
		var last error
		for i := range r.Payload {
			b := append([]byte(nil), r.Payload...)
			b[i] ^= 1 << (i % 7)
			err := w.send(r.ID, one(b, good))
			require.Contains(w.t, []refusal.Code{refusal.Malformed, refusal.BadSignature}, refusal.CodeOf(err), "byte %d", i)
			if refusal.CodeOf(err) == refusal.BadSignature {
				last = err
			}
		}
		return last
	}},
	{id: "S04c", what: "one bit flipped at each byte of the signature", want: refusal.BadSignature, run: func(w *world) error {
		r := w.destroyRequest()
		good := w.alice.forgeBlob(w.t, operational, "", "sha512", r.Payload).bytes()
		w.arm()
		var last error
		for i := range good {
			b := append([]byte(nil), good...)
			b[i] ^= 1 << (i % 8)
			err := w.send(r.ID, one(r.Payload, armor(b)))
			require.Contains(w.t, []refusal.Code{refusal.Malformed, refusal.BadSignature, refusal.NamespaceMismatch, refusal.UnknownSigner, refusal.WeakKey},
				refusal.CodeOf(err), "byte %d", i)
			if refusal.CodeOf(err) == refusal.BadSignature {
				last = err
			}
		}
		return last
	}},
	inNamespace("S05a", "git"),
	inNamespace("S05b", "file"),
	inNamespace("S05c", ""),
	inNamespace("S05d", "operational@gated "),
	inNamespace("S05e", "Operational@gated"),
	inNamespace("S05f", "operational@gated\x00"),
	signed("S06a", "a key that is listed for recovery only signs as operational", refusal.UnknownSigner,
		func(w *world, p []byte) string { return w.rita.keygen(w.t, operational, p) }),
	signed("S06b", "a key that is listed for coordination only signs as operational", refusal.UnknownSigner,
		func(w *world, p []byte) string { return w.carol.keygen(w.t, operational, p) }),
	signed("S07a", "the recovery role approves a destroy", refusal.RoleDenied,
		func(w *world, p []byte) string { return w.rita.keygen(w.t, "recovery@gated", p) }),
	signed("S07b", "the coordination role approves a destroy", refusal.RoleDenied,
		func(w *world, p []byte) string { return w.carol.keygen(w.t, "coordination@gated", p) }),
	{id: "S07c", what: "the coordination role rejects a destroy", want: refusal.RoleDenied, run: func(w *world) error {
		r := w.destroyRequest()
		e := w.rejection(r, w.alice)
		e.Signatures = []string{w.carol.forge(w.t, "coordination@gated", e.Payload)}
		w.arm()
		return failure(w.gate.Reject(w.ctx, hub, r.ID, e))
	}},
	{id: "S07d", what: "an offline destroy signed in the coordination role", want: refusal.RoleDenied, run: func(w *world) error {
		r := w.destroyRequest()
		b := w.altered(r, func(p *op.Payload) { p.Nonce = "QUJDREVGR0hJSktMTU5PUA" })
		w.arm()
		return w.sendOffline(one(b, w.carol.forge(w.t, "coordination@gated", b)))
	}},
	reblobbed("S12a", "bytes after the signature inside the inner signature", refusal.Malformed, func(b *blob) { b.inner = append(b.inner, 0) }),
	reblobbed("S12b", "the hash field says sha256, the signature was made with sha512", refusal.BadSignature, func(b *blob) { b.hash = []byte("sha256") }),
	reblobbed("S12c", "a hash that does not exist", refusal.Malformed, func(b *blob) { b.hash = []byte("md5") }),
	signed("S12d", "a valid signature with a non-empty reserved field", refusal.Malformed, func(w *world, p []byte) string {
		return armor(w.alice.forgeBlob(w.t, operational, "x", "sha512", p).bytes())
	}),
	signed("S12e", "bytes after the last field", refusal.Malformed, func(w *world, p []byte) string {
		return armor(append(w.alice.forgeBlob(w.t, operational, "", "sha512", p).bytes(), 0))
	}),
	rearmored("S12f", "PEM headers", func(s string) string {
		return strings.Replace(s, "SIGNATURE-----\n", "SIGNATURE-----\nComment: trust me\n\n", 1)
	}),
	rearmored("S12g", "text before the armor", func(s string) string { return "approved by the board\n" + s }),
	rearmored("S12h", "text after the armor", func(s string) string { return s + "approved by the board\n" }),
	rearmored("S12i", "two armored signatures in one string", func(s string) string { return s + s }),
	rearmored("S12j", "blank lines before the armor", func(s string) string { return "\n" + s }),
	rearmored("S12k", "lines that end with CR LF", func(s string) string { return strings.ReplaceAll(s, "\n", "\r\n") }),
	{id: "S19a", what: "a signed rejection is sent to approve", want: refusal.Malformed, run: func(w *world) error {
		r := w.destroyRequest()
		e := w.rejection(r, w.alice)
		w.arm()
		return w.send(r.ID, e)
	}},
	{id: "S19b", what: "a signed approval is sent to reject", want: refusal.Malformed, run: func(w *world) error {
		r := w.destroyRequest()
		e := w.alice.envelope(w.t, r.Payload)
		w.arm()
		return failure(w.gate.Reject(w.ctx, hub, r.ID, e))
	}},
	{id: "S19c", what: "a signed rejection is sent as an offline operation", want: refusal.Malformed, run: func(w *world) error {
		r := w.destroyRequest()
		e := w.rejection(r, w.alice)
		w.arm()
		return w.sendOffline(e)
	}},
}
