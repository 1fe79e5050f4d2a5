package authz_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/authz"
	"gated/internal/base/refusal"
	"gated/internal/test/mint"
	"gated/internal/test/must"
)

// These tests take a good signature by a security key or with a certificate, change
// one thing, and expect a refusal. mutation_test.go has those of plain keys.

// attested returns signatures of which every bit counts, and a file that accepts
// them.
func attested(t testing.TB) (*authz.Trust, map[string]mint.Signature) {
	t.Helper()
	alice, p256 := mint.Ed25519(t, "alice"), mint.ECDSA(t, "bob", 256)
	frank, grace := mint.SKEd25519(t, "frank", said(mint.UserPresent)), mint.SKECDSA(t, "grace", said(mint.UserPresent|mint.UserVerified))
	ca, skCA := mint.Ed25519(t, "ca"), mint.SKECDSA(t, "ca", mint.Touched)
	trust := loaded(t, frank.Line("frank", asOperator), grace.Line("grace", asOperator), ca.Line("*", asAuthority), skCA.Line("*", asAuthority))
	graceCert := mint.Certify(ca, grace, "grace")
	graceCert.Critical = []mint.Option{{Name: "verify-required"}}
	return trust, map[string]mint.Signature{
		"sk-ed25519":               mint.Sign(t, frank, nsOperational, payloadOf(t)),
		"sk-ecdsa":                 mint.Sign(t, grace, nsOperational, payloadOf(t)),
		"ed25519 by ed25519":       mint.SignWith(t, mint.Certify(ca, alice, "alice"), alice, nsOperational, payloadOf(t)),
		"ecdsa by sk-ecdsa":        mint.SignWith(t, mint.Certify(skCA, p256, "bob"), p256, nsOperational, payloadOf(t)),
		"sk-ecdsa by ed25519, PIN": mint.SignWith(t, graceCert, grace, nsOperational, payloadOf(t)),
	}
}

func TestEveryBitOfAttestedSignatureCounts(t *testing.T) { // S04, S08, S10
	t.Parallel()
	trust, signatures := attested(t)
	codes := []refusal.Code{refusal.Malformed, refusal.BadSignature, refusal.NamespaceMismatch, refusal.UnknownSigner, refusal.SignerExpired, refusal.WeakKey, refusal.TouchRequired}
	for name, s := range signatures {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			must.Get(approves(t, trust, s, noon))(t)
			v, payload, blob := verifier(trust), payloadOf(t), s.Blob()
			for i := range len(blob) * 8 {
				changed := slices.Clone(blob)
				changed[i/8] ^= 1 << (i % 8)
				_, err := v.Approval(authz.Envelope{Payload: payload, Signatures: []string{mint.Armor(changed, 70)}}, noon)
				require.Contains(t, codes, refusal.CodeOf(err), "bit %d: %v", i, err)
			}
		})
	}
}

func TestEveryByteOfAttestedSignatureCounts(t *testing.T) {
	t.Parallel()
	trust, signatures := attested(t)
	v, payload := verifier(trust), payloadOf(t)
	for name, s := range signatures {
		blob := s.Blob()
		for i := range len(blob) {
			for what, changed := range map[string][]byte{
				"cut": blob[:i], "dropped": slices.Delete(slices.Clone(blob), i, i+1), "doubled": slices.Insert(slices.Clone(blob), i, blob[i]),
			} {
				if len(changed) == 0 {
					continue
				}
				_, err := v.Approval(authz.Envelope{Payload: payload, Signatures: []string{mint.Armor(changed, 70)}}, noon)
				require.ErrorIs(t, err, refusal.Malformed, "%s: byte %d %s", name, i, what)
			}
		}
	}
}

// TestEveryFieldOfCertificateCounts drops, doubles and empties each field, in a
// certificate that the CA signed in that form.
func TestEveryFieldOfCertificateCounts(t *testing.T) {
	t.Parallel()
	alice, ca := mint.Ed25519(t, "alice"), mint.Ed25519(t, "ca")
	trust := loaded(t, ca.Line("*", asAuthority))
	fields := [][]byte{
		mint.String("ssh-ed25519-cert-v01@openssh.com"), mint.String(make([]byte, 32)), alice.Blob()[len(mint.String(alice.Type())):],
		mint.Uint64(1), mint.Uint32(mint.UserCert), mint.String("id"), mint.String(mint.String("alice")), mint.Uint64(0), mint.Uint64(1 << 62),
		mint.String(""), mint.String(""), mint.String(""), mint.String(ca.Blob()),
	}
	certified := func(fields [][]byte) mint.Signature {
		body := slices.Concat(fields...)
		made := must.Get(ca.Sign(nil, body))(t)
		blob := slices.Concat(body, mint.String(mint.Strings([]byte(made.Format), made.Blob)))
		return mint.Unsigned(blob, nsOperational).By(t, alice, payloadOf(t))
	}
	_, err := approves(t, trust, certified(fields), noon)
	require.NoError(t, err)
	without := func(i int) [][]byte { return slices.Delete(slices.Clone(fields), i, i+1) }
	for i, field := range fields {
		must.Err(approves(t, trust, certified(without(i)), noon))(t, "without field %d", i)
		_, err := approves(t, trust, certified(slices.Insert(slices.Clone(fields), i, field)), noon)
		require.Error(t, err, "field %d twice", i)
		if len(field) > 8 {
			_, err = approves(t, trust, certified(slices.Insert(without(i), i, mint.String(""))), noon)
			require.Error(t, err, "field %d empty", i)
		}
	}
	for _, n := range []int{0, 15} {
		short := slices.Insert(without(1), 1, mint.String(make([]byte, n)))
		_, err = approves(t, trust, certified(short), noon)
		refusedAs(t, err, refusal.Malformed, refusal.StageDecode)
	}
	must.Get(approves(t, trust, certified(slices.Insert(without(1), 1, mint.String(make([]byte, 16)))), noon))(t)
}

func BenchmarkApprovalByOthers(b *testing.B) {
	trust, signatures := attested(b)
	v, payload := verifier(trust), payloadOf(b)
	for name, s := range signatures {
		b.Run(name, func(b *testing.B) {
			e := sent(payload, s)
			for b.Loop() {
				_, err := v.Approval(e, noon)
				require.NoError(b, err)
			}
		})
	}
}
