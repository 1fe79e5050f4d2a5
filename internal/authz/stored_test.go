package authz_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/authz"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/test/mint"
	"gated/internal/test/must"
)

// storedOf is what the journal stores of a verified signature.
func storedOf(t testing.TB, trust *authz.Trust, s mint.Signature) op.Signed {
	t.Helper()
	by := must.Get(approves(t, trust, s, noon))(t)
	return op.Signed{Principal: by.Principal, Role: by.Role, Key: by.Key, CA: by.CA, Armor: by.Armor, Attested: by.Attested, At: noon}
}

// TestStoredVerifies: an accepted signature verifies again as it is stored, for
// every type of key, plain and certified. With one character changed it does not.
func TestStoredVerifies(t *testing.T) {
	t.Parallel()
	payload := payloadOf(t)
	for _, key := range everyKey(t) {
		ca := mint.Ed25519(t, "ca")
		trust := loaded(t, key.Line("plain", asOperator), ca.Line(anybody, asAuthority))
		for _, s := range []mint.Signature{mint.Sign(t, key, nsOperational, payload),
			mint.SignWith(t, mint.Certify(ca, key, "certified@example.com"), key, nsOperational, payload)} {
			stored := storedOf(t, trust, s)
			require.NoError(t, authz.VerifyStored(payload, stored), key.Type())
			require.Error(t, authz.VerifyStored(append([]byte(" "), payload...), stored))
			for i := 0; i < len(stored.Armor); i += 7 {
				changed, c := stored, byte('A')
				if stored.Armor[i] == c {
					c = 'B'
				}
				changed.Armor = stored.Armor[:i] + string(c) + stored.Armor[i+1:]
				require.Error(t, authz.VerifyStored(payload, changed), "%s: character %d", key.Type(), i)
			}
		}
	}
}

// TestStoredMismatch changes one thing of the stored signature.
func TestStoredMismatch(t *testing.T) {
	t.Parallel()
	payload := payloadOf(t)
	alice, sk, ca := mint.Ed25519(t, "alice"), mint.SKECDSA(t, "sk", said(mint.UserPresent)), mint.Ed25519(t, "ca")
	other := mint.Ed25519(t, "other")
	trust := loaded(t, sk.Line("plain", asOperator), ca.Line(anybody, asAuthority))
	plain := storedOf(t, trust, mint.Sign(t, sk, nsOperational, payload))
	certified := storedOf(t, trust, mint.SignWith(t, mint.Certify(ca, alice, "alice@example.com"), alice, nsOperational, payload))
	with := func(c mint.Cert) string { return mint.SignWith(t, c, alice, nsOperational, payload).Armored() }
	forged, two := mint.Certify(ca, alice, "alice@example.com").Forged(t), mint.Certify(ca, alice, "alice@example.com", "bob@example.com")
	host := mint.Certify(ca, alice, "alice@example.com")
	host.Kind = mint.HostCert

	for _, c := range []struct {
		name   string
		of     op.Signed
		change func(s *op.Signed)
		code   refusal.Code
		stage  refusal.Stage
	}{
		{"no armor", plain, func(s *op.Signed) { s.Armor = "x" }, refusal.Malformed, refusal.StageDecode},
		{"bytes after the armor", plain, func(s *op.Signed) { s.Armor += "x" }, refusal.Malformed, refusal.StageDecode},
		{"over other bytes", plain, func(s *op.Signed) {
			s.Armor = mint.Sign(t, sk, nsOperational, []byte("other")).Armored()
		}, refusal.BadSignature, refusal.StageCrypto},
		{"another role", plain, func(s *op.Signed) { s.Role = op.Recovery }, refusal.NamespaceMismatch, refusal.StageNamespace},
		{"no role", plain, func(s *op.Signed) { s.Role = "" }, refusal.NamespaceMismatch, refusal.StageNamespace},
		{"another key", plain, func(s *op.Signed) { s.Key = other.Fingerprint() }, refusal.UnknownSigner, refusal.StageAllowList},
		{"by another key", plain, func(s *op.Signed) {
			s.Armor = mint.Sign(t, other, nsOperational, payload).Armored()
		}, refusal.UnknownSigner, refusal.StageAllowList},
		{"a CA that is none", plain, func(s *op.Signed) { s.CA = ca.Fingerprint() }, refusal.UnknownSigner, refusal.StageAllowList},
		{"a key of an unknown type", plain, func(s *op.Signed) {
			s.Armor = mint.Unsigned(mint.String("ssh-xmss@openssh.com"), nsOperational).Armored()
		}, refusal.UnknownSigner, refusal.StageAllowList},
		{"other flags", plain, func(s *op.Signed) { s.Attested = &op.Attested{Flags: 5, Counter: 42} }, refusal.BadSignature, refusal.StageCrypto},
		{"another counter", plain, func(s *op.Signed) { s.Attested = &op.Attested{Flags: 1, Counter: 43} }, refusal.BadSignature, refusal.StageCrypto},
		{"flags of a software key", certified, func(s *op.Signed) { s.Attested = &op.Attested{Flags: 1} }, refusal.BadSignature, refusal.StageCrypto},
		{"another person", certified, func(s *op.Signed) { s.Principal = "bob@example.com" }, refusal.UnknownSigner, refusal.StageAllowList},
		{"another CA", certified, func(s *op.Signed) { s.CA = other.Fingerprint() }, refusal.UnknownSigner, refusal.StageAllowList},
		{"no CA", certified, func(s *op.Signed) { s.CA = "" }, refusal.UnknownSigner, refusal.StageAllowList},
		{"a CA that did not sign", certified, func(s *op.Signed) { s.Armor = with(forged) }, refusal.BadSignature, refusal.StageCrypto},
		{"a certificate of two", certified, func(s *op.Signed) { s.Armor = with(two) }, refusal.UnknownSigner, refusal.StageAllowList},
		{"a certificate of a host", certified, func(s *op.Signed) { s.Armor = with(host) }, refusal.UnknownSigner, refusal.StageAllowList},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := c.of
			require.NoError(t, authz.VerifyStored(payload, s))
			c.change(&s)
			refusedAs(t, authz.VerifyStored(payload, s), c.code, c.stage)
		})
	}
	untouched := mint.SKECDSA(t, "sk", said(0))
	s := plain
	s.Armor, s.Attested = mint.Sign(t, untouched, nsOperational, payload).Armored(), &op.Attested{Counter: 42}
	refusedAs(t, authz.VerifyStored(payload, s), refusal.TouchRequired, refusal.StageCrypto)
	refusedAs(t, authz.VerifyStored([]byte(strings.Repeat("x", op.MaxPayload+1)), plain), refusal.Oversized, refusal.StageDecode)
}

// TestStoredWithoutWhatAKeySaid: proofs are stored without an attestation.
func TestStoredWithoutWhatAKeySaid(t *testing.T) {
	t.Parallel()
	sk := mint.SKEd25519(t, "sk", said(mint.UserPresent))
	s := storedOf(t, loaded(t, sk.Line("plain", asOperator)), mint.Sign(t, sk, nsOperational, payloadOf(t)))
	s.Attested = nil
	require.NoError(t, authz.VerifyStored(payloadOf(t), s))
}

// TestAStoredPasskey: what is stored of a passkey's signature is what the browser and the authenticator said. No
// configuration is asked for, because it may have changed since.
func TestAStoredPasskey(t *testing.T) {
	t.Parallel()
	for name, b := range goodBrowsers {
		key := mint.Passkey(t, "alice", b)
		made := mint.Sign(t, key, nsOperational, payloadOf(t))
		by := must.Get(approvesOn(t, consoles, loaded(t, key.Line("alice", asOperator)), made))(t)
		stored := func(a *op.Attested) op.Signed {
			return op.Signed{Principal: by.Principal, Role: by.Role, Key: by.Key, Armor: by.Armor, Attested: a, At: noon}
		}
		require.NoError(t, authz.VerifyStored(payloadOf(t), stored(by.Attested)), name)
		_, err := authz.VerifyFile(payloadOf(t), by.Armor, loaded(t, key.Line("alice", asOperator)), noon)
		require.NoError(t, err, name)
		for _, change := range []func(a *op.Attested){
			func(a *op.Attested) { a.Origin = "https://other.example.com" },
			func(a *op.Attested) { a.Origin = "" },
			func(a *op.Attested) { a.Origin += "/" },
			func(a *op.Attested) { a.Flags ^= op.FlagVerified },
			func(a *op.Attested) { a.Flags ^= op.FlagBackupEligible },
			func(a *op.Attested) { a.Counter++ },
		} {
			a := *by.Attested
			change(&a)
			refusedAs(t, authz.VerifyStored(payloadOf(t), stored(&a)), refusal.BadSignature, refusal.StageCrypto)
		}
	}
	for _, c := range badBrowsers {
		key := mint.Passkey(t, "alice", c.browser)
		armor, a := mint.Sign(t, key, nsOperational, payloadOf(t)).Armored(), &op.Attested{Flags: c.browser.Flags, Counter: c.browser.Counter, Origin: c.browser.Origin}
		_, err := authz.VerifyFile(payloadOf(t), armor, loaded(t, key.Line("alice", asOperator)), noon)
		stored := authz.VerifyStored(payloadOf(t), op.Signed{Principal: "alice", Role: op.Operational, Key: key.Fingerprint(), Armor: armor, Attested: a, At: noon})
		if b := c.browser.Origin; b == "https://console.example.com:8443" || b == "https://a.console.example.com" {
			require.NoError(t, err, c.name) // pages that another configuration may name
			require.NoError(t, stored, c.name)
			continue
		}
		require.Error(t, err, c.name)
		refusedAs(t, err, c.code, c.stage)
		require.Error(t, stored, c.name)
		refusedAs(t, stored, c.code, c.stage)
	}
}
