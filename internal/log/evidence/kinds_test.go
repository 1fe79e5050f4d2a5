package evidence_test

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/authz"
	"gated/internal/base/op"
	"gated/internal/test/gateworld"
	"gated/internal/test/mint"
)

// TestEachKindOfSignature: evidence of each way to sign is verified, and not if its list has another key.
func TestEachKindOfSignature(t *testing.T) {
	ca, carol := mint.Ed25519(t, "ca"), mint.Ed25519(t, "carol")
	cert := mint.Certify(ca, carol, "carol")
	both := `namespaces="operational@gated,operational@batch.gated"`
	dave, token, rsa := mint.Ed25519(t, "dave"), mint.SKEd25519(t, "erin", mint.Touched), mint.RSA(t, "frank", 3072)
	skECDSA, ecdsa := mint.SKECDSA(t, "heidi", mint.Touched), mint.ECDSA(t, "grace", 256)
	lines := []string{dave.Line("dave", both), gateworld.Line(token, op.Operational), gateworld.Line(rsa, op.Operational), gateworld.Line(ecdsa, op.Operational),
		gateworld.Line(skECDSA, op.Operational), ca.Line("carol", `cert-authority,namespaces="operational@gated"`)}
	by := func(keys ...mint.Key) func(*world, []byte) authz.Envelope {
		return func(w *world, payload []byte) authz.Envelope { return gateworld.Signed(t, payload, keys...) }
	}
	for name, sign := range map[string]func(w *world, payload []byte) authz.Envelope{
		"security key": by(token), "RSA": by(rsa), "ECDSA": by(ecdsa), "ECDSA security key": by(skECDSA),
		"certificate": func(_ *world, payload []byte) authz.Envelope {
			return authz.Envelope{Payload: payload, Signatures: []string{mint.SignWith(t, cert, carol, op.Operational.Namespace(), payload).Armored()}}
		},
		"batch": func(w *world, payload []byte) authz.Envelope {
			return gateworld.BatchSigned(t, w.wall, [][]byte{[]byte("another"), payload, []byte("a third")}, dave)[1]
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, lines...)
			id := w.destroyedBy("web-1", func(payload []byte) authz.Envelope { return sign(w, payload) })
			d := w.evidence(id)
			code, words := verify(t, line(t, d), "--gate-key", w.key.Public)
			require.Equal(t, 0, code, words)
			require.NotContains(t, words, "NOT")
			if name == "batch" {
				path := d.Signatures[0].Batch.Path
				path[0] = hex.EncodeToString(make([]byte, 32))
				code, words = verify(t, line(t, d), "--gate-key", w.key.Public)
				require.Equal(t, 1, code, words)
				require.Contains(t, words, "the batch has other payloads")
			}
		})
	}
}

// TestOlderEntries: without in_force the verifier says what it could not verify.
func TestOlderEntries(t *testing.T) {
	w := newWorld(t)
	d := w.evidence(w.destroyed("web-1"))
	forge(w, &d, func(kind string, text *string) {
		if kind == "approved" {
			from, rest, _ := strings.Cut(*text, `"in_force":`)
			_, rest, _ = strings.Cut(rest, `},`)
			*text = from + rest
		}
	})
	code, words := verify(t, line(t, d), "--gate-key", w.key.Public)
	require.Equal(t, 0, code, words)
	require.Contains(t, words, "NOT verified: that this was the newest list")
}
