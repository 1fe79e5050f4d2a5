package authz_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/authz"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/test/mint"
	"gated/internal/test/must"
)

const anybody = "*@example.com"

func TestCertificateAccepted(t *testing.T) {
	t.Parallel()
	for _, ca := range everyKey(t) {
		trust := loaded(t, ca.Line("nobody@example.com,"+anybody, asAuthority))
		for _, key := range everyKey(t) {
			cert := mint.Certify(ca, key, key.Name+"@example.com")
			cert.Serial = 1<<64 - 1
			s := mint.SignWith(t, cert, key, nsOperational, payloadOf(t))
			got := must.Get(approves(t, trust, s, noon))(t, "%s by %s", key.Type(), ca.Type())
			require.Equal(t, authz.Signer{Principal: key.Name + "@example.com", Role: op.Operational, Key: key.Fingerprint(),
				KeyType: key.Type(), CA: ca.Fingerprint(), Serial: 1<<64 - 1, Attested: attestedOf(key), Armor: s.Armored()}, got)
		}
	}
}

// certificateRefusals change one thing of a good certificate for alice.
var certificateRefusals = []struct {
	name   string
	change func(t mint.TB, c *mint.Cert)
	code   refusal.Code
	stage  refusal.Stage
}{
	{"S10 SHA-1 by the CA", func(t mint.TB, c *mint.Cert) { c.CA, c.Algorithm = mint.RSA(t, "ca", 3072), "ssh-rsa" }, refusal.WeakKey, refusal.StageDecode},
	{"S10 forged by one bit", func(t mint.TB, c *mint.Cert) { *c = c.Forged(t) }, refusal.BadSignature, refusal.StageCrypto},
	{"S10 signed by another", func(t mint.TB, c *mint.Cert) { c.CABlob, c.CA = c.CA.Blob(), mint.Ed25519(t, "mallory") }, refusal.BadSignature, refusal.StageCrypto},
	{"S10 CA not listed", func(t mint.TB, c *mint.Cert) { c.CA = mint.Ed25519(t, "mallory") }, refusal.UnknownSigner, refusal.StageAllowList},
	{"S10 CA of 2048 bits", func(t mint.TB, c *mint.Cert) { c.CA = mint.RSA(t, "weak", 2048) }, refusal.WeakKey, refusal.StageDecode},
	{"S10 DSA CA", func(t mint.TB, c *mint.Cert) { c.CABlob = mint.DSA(t, "old").Blob() }, refusal.WeakKey, refusal.StageDecode},
	{"S10 RSA key of 2048 bits", func(t mint.TB, c *mint.Cert) { c.Key = mint.RSA(t, "weak", 2048) }, refusal.WeakKey, refusal.StageDecode},
	{"S11 expired", func(_ mint.TB, c *mint.Cert) { c.ValidBefore = noon }, refusal.SignerExpired, refusal.StageAllowList},
	{"S11 not yet valid", func(_ mint.TB, c *mint.Cert) { c.ValidAfter = noon.Add(time.Second) }, refusal.SignerExpired, refusal.StageAllowList},
	{"S11 never valid", func(_ mint.TB, c *mint.Cert) { c.ValidAfter, c.ValidBefore = noon, noon }, refusal.SignerExpired, refusal.StageAllowList},
	{"S11 host type", func(_ mint.TB, c *mint.Cert) { c.Kind = mint.HostCert }, refusal.UnknownSigner, refusal.StageAllowList},
	{"S11 no principals", func(_ mint.TB, c *mint.Cert) { c.Principals = nil }, refusal.UnknownSigner, refusal.StageAllowList},
	{"S11 wrong principal", func(_ mint.TB, c *mint.Cert) { c.Principals = []string{"alice@example.org"} }, refusal.UnknownSigner, refusal.StageAllowList},
	{"S11 negated principal", func(_ mint.TB, c *mint.Cert) { c.Principals = []string{"root@example.com"} }, refusal.UnknownSigner, refusal.StageAllowList},
	{"S11 unknown critical option", func(_ mint.TB, c *mint.Cert) { c.Critical = []mint.Option{{Name: "x@example.com"}} }, refusal.UnknownSigner, refusal.StageAllowList},
	{"S11 force-command", func(_ mint.TB, c *mint.Cert) {
		c.Critical = []mint.Option{{Name: "force-command", Value: "/bin/true"}}
	}, refusal.UnknownSigner, refusal.StageAllowList},
	{"S11 source-address", func(_ mint.TB, c *mint.Cert) {
		c.Critical = []mint.Option{{Name: "source-address", Value: "192.0.2.0/24"}}
	}, refusal.UnknownSigner, refusal.StageAllowList},
	{"S11 verify-required with a value", func(_ mint.TB, c *mint.Cert) {
		c.Critical = []mint.Option{{Name: "verify-required", Value: "no"}}
	}, refusal.UnknownSigner, refusal.StageAllowList},
	{"S11 verify-required of a software key", func(_ mint.TB, c *mint.Cert) {
		c.Critical = []mint.Option{{Name: "verify-required"}}
	}, refusal.TouchRequired, refusal.StageCrypto},
	{"S21 two principals", func(_ mint.TB, c *mint.Cert) { c.Principals = []string{"alice@example.com", "bob@example.com"} }, refusal.UnknownSigner, refusal.StageAllowList},
	{"S21 one principal twice", func(_ mint.TB, c *mint.Cert) { c.Principals = []string{"alice@example.com", "alice@example.com"} }, refusal.UnknownSigner, refusal.StageAllowList},
	{"empty principal", func(_ mint.TB, c *mint.Cert) { c.Principals = []string{""} }, refusal.UnknownSigner, refusal.StageAllowList},
	{"pattern for a principal", func(_ mint.TB, c *mint.Cert) { c.Principals = []string{"*@example.com"} }, refusal.UnknownSigner, refusal.StageAllowList},
	{"list for a principal", func(_ mint.TB, c *mint.Cert) { c.Principals = []string{"alice,bob@example.com"} }, refusal.UnknownSigner, refusal.StageAllowList},
	{"newline in a principal", func(_ mint.TB, c *mint.Cert) { c.Principals = []string{"alice\n@example.com"} }, refusal.UnknownSigner, refusal.StageAllowList},
	{"NUL in a principal", func(_ mint.TB, c *mint.Cert) { c.Principals = []string{"alice\x00@example.com"} }, refusal.UnknownSigner, refusal.StageAllowList},
	{"long principal", func(_ mint.TB, c *mint.Cert) { c.Principals = []string{strings.Repeat("a", 256) + "@example.com"} }, refusal.UnknownSigner, refusal.StageAllowList},
	{"NUL in the key id", func(_ mint.TB, c *mint.Cert) { c.ID = "a\x00b" }, refusal.Malformed, refusal.StageDecode},
	{"neither user nor host", func(_ mint.TB, c *mint.Cert) { c.Kind = 3 }, refusal.Malformed, refusal.StageDecode},
	{"reserved bytes", func(_ mint.TB, c *mint.Cert) { c.Reserved = "r" }, refusal.Malformed, refusal.StageDecode},
	{"bytes after it", func(_ mint.TB, c *mint.Cert) { c.Trailing = []byte{0} }, refusal.Malformed, refusal.StageDecode},
	{"bytes after the CA's signature", func(_ mint.TB, c *mint.Cert) { c.InnerRest = []byte{0} }, refusal.Malformed, refusal.StageDecode},
	{"extensions out of order", func(_ mint.TB, c *mint.Cert) { slices.Reverse(c.Extensions) }, refusal.Malformed, refusal.StageDecode},
	{"extension twice", func(_ mint.TB, c *mint.Cert) { c.Extensions = append(c.Extensions, c.Extensions[4]) }, refusal.Malformed, refusal.StageDecode},
	{"critical option twice", func(_ mint.TB, c *mint.Cert) {
		c.Critical = []mint.Option{{Name: "verify-required"}, {Name: "verify-required"}}
	}, refusal.Malformed, refusal.StageDecode},
	{"S17 CA that is a certificate", func(t mint.TB, c *mint.Cert) { c.CABlob = mint.Certify(c.CA, c.CA, "ca").Blob(t) }, refusal.Malformed, refusal.StageDecode},
	{"CA without a key", func(_ mint.TB, c *mint.Cert) { c.CABlob = []byte{} }, refusal.Malformed, refusal.StageDecode},
	{"CA of an unknown type", func(_ mint.TB, c *mint.Cert) { c.CABlob = mint.String("ssh-xmss@openssh.com") }, refusal.UnknownSigner, refusal.StageAllowList},
	{"CA's signature in another format", func(_ mint.TB, c *mint.Cert) {
		c.Signature = mint.Strings("rsa-sha2-512", strings.Repeat("s", 64))
	}, refusal.Malformed, refusal.StageDecode},
	{"CA's security key not touched", func(t mint.TB, c *mint.Cert) { c.CA = mint.SKEd25519(t, "ca", said(0)) }, refusal.TouchRequired, refusal.StageCrypto},
}

func TestCertificateRefusals(t *testing.T) { // S10, S11, S17, S21
	t.Parallel()
	alice, ca := mint.Ed25519(t, "alice"), mint.Ed25519(t, "ca")
	trust := loaded(t)
	for _, k := range []mint.Key{ca, mint.RSA(t, "ca", 3072), mint.SKEd25519(t, "ca", said(0))} {
		trust = loaded(t, string(trust.Text()), k.Line(anybody+",!root@*", asAuthority))
	}
	for _, c := range certificateRefusals {
		t.Run(c.name, func(t *testing.T) {
			cert := mint.Certify(ca, alice, "alice@example.com")
			must.Get(approves(t, trust, mint.SignWith(t, cert, alice, nsOperational, payloadOf(t)), noon))(t)
			c.change(t, &cert)
			s := mint.Unsigned(cert.Blob(t), nsOperational).By(t, cert.Key, payloadOf(t))
			_, err := approves(t, trust, s, noon)
			refusedAs(t, err, c.code, c.stage)
			_, err = authz.VerifyFile(payloadOf(t), s.Armored(), trust, noon)
			refusedAs(t, err, c.code, c.stage)
		})
	}
}

func TestSignatureWithCertificateRefusals(t *testing.T) { // S10, S12, and the purpose of a line
	t.Parallel()
	alice, erin, ca := mint.Ed25519(t, "alice"), mint.RSA(t, "erin", 3072), mint.Ed25519(t, "ca")
	cert, rsaCert := mint.Certify(ca, alice, "alice@example.com"), mint.Certify(ca, erin, "erin@example.com")
	payload, authority := payloadOf(t), ca.Line(anybody, asAuthority)
	good := mint.SignWith(t, cert, alice, nsOperational, payload)
	changed := func(change func(*mint.Signature)) mint.Signature {
		s := good
		change(&s)
		return s
	}
	for _, c := range []struct {
		name  string
		trust string
		s     mint.Signature
		code  refusal.Code
		stage refusal.Stage
	}{
		{"S10 SHA-1 inside", authority, mint.Unsigned(rsaCert.Blob(t), nsOperational).As(t, erin, "ssh-rsa", payload), refusal.WeakKey, refusal.StageDecode},
		{"another key signed", authority, mint.SignWith(t, cert, mint.Ed25519(t, "mallory"), nsOperational, payload), refusal.BadSignature, refusal.StageCrypto},
		{"the CA signed", authority, mint.SignWith(t, cert, ca, nsOperational, payload), refusal.BadSignature, refusal.StageCrypto},
		{"other bytes", authority, mint.SignWith(t, cert, alice, nsOperational, []byte("other")), refusal.BadSignature, refusal.StageCrypto},
		{"other role", authority, mint.SignWith(t, cert, alice, nsRecovery, payload), refusal.UnknownSigner, refusal.StageAllowList},
		{"S12 bytes inside", authority, changed(func(s *mint.Signature) { s.Rest = []byte{0} }), refusal.Malformed, refusal.StageDecode},
		{"format of a certificate", authority, changed(func(s *mint.Signature) { s.Format = cert.Type() }), refusal.Malformed, refusal.StageDecode},
		{"CA as a plain signer", authority, mint.Sign(t, ca, nsOperational, payload), refusal.UnknownSigner, refusal.StageAllowList},
		{"certified key as a plain signer", authority, mint.Sign(t, alice, nsOperational, payload), refusal.UnknownSigner, refusal.StageAllowList},
		{"certificate of a plain line's key", alice.Line("alice@example.com", asOperator), good, refusal.UnknownSigner, refusal.StageAllowList},
		{"CA listed as a plain key", ca.Line("alice@example.com", asOperator), good, refusal.UnknownSigner, refusal.StageAllowList},
		{"CA's line has ended", ca.Line(anybody, asAuthority+`,valid-before="20310504115959Z"`), good, refusal.SignerExpired, refusal.StageAllowList},
		{"CA's line is for another role", ca.Line(anybody, `cert-authority,namespaces="recovery@gated"`), good, refusal.UnknownSigner, refusal.StageAllowList},
		{"no line lists it", "", good, refusal.UnknownSigner, refusal.StageAllowList},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := approves(t, loaded(t, c.trust), c.s, noon)
			refusedAs(t, err, c.code, c.stage)
		})
	}
}

func TestCertificateValidity(t *testing.T) { // S11, S13: as in OpenSSH, after is valid and before is not
	t.Parallel()
	alice, ca := mint.Ed25519(t, "alice"), mint.Ed25519(t, "ca")
	cert := mint.Certify(ca, alice, "alice@example.com")
	cert.ValidAfter, cert.ValidBefore = noon, noon.Add(time.Minute)
	trust := loaded(t, ca.Line(anybody, asAuthority))
	s := mint.SignWith(t, cert, alice, nsOperational, payloadOf(t))
	signed := op.Signed{Principal: "alice@example.com", Role: op.Operational, Key: alice.Fingerprint(), CA: ca.Fingerprint(), Armor: s.Armored()}
	for at, good := range map[time.Time]bool{
		noon.Add(-time.Second): false, noon: true, noon.Add(59*time.Second + 999*time.Millisecond): true,
		noon.Add(time.Minute): false, time.Unix(-1, 0): false,
	} {
		_, err := approves(t, trust, s, at)
		still := trust.Still(signed, at)
		if good {
			require.NoError(t, err)
			require.NoError(t, still)
			continue
		}
		require.ErrorIs(t, err, refusal.SignerExpired, "%s", at)
		require.ErrorIs(t, still, refusal.SignerExpired, "%s", at)
	}
}

func TestFirstAcceptingAuthorityWins(t *testing.T) {
	t.Parallel()
	alice, ca := mint.Ed25519(t, "alice"), mint.Ed25519(t, "ca")
	s := mint.SignWith(t, mint.Certify(ca, alice, "alice@example.com"), alice, nsOperational, payloadOf(t))
	must.Get(approves(t, loaded(t,
		ca.Line("bob@example.com", asAuthority),
		ca.Line(anybody, `cert-authority,namespaces="recovery@gated"`),
		ca.Line(anybody, asAuthority+`,valid-before="20300101Z"`),
		alice.Line("alice@example.com", `namespaces="recovery@gated"`),
		ca.Line("al?ce@*", asAuthority)), s, noon))(t)
}

func TestStillOfCertificate(t *testing.T) { // S23
	t.Parallel()
	alice, ca := mint.Ed25519(t, "alice"), mint.Ed25519(t, "ca")
	armor := mint.SignWith(t, mint.Certify(ca, alice, "alice@example.com"), alice, nsOperational, payloadOf(t)).Armored()
	signed := op.Signed{Principal: "alice@example.com", Role: op.Operational, Key: alice.Fingerprint(), CA: ca.Fingerprint(), Armor: armor}
	trust := loaded(t, ca.Line(anybody, asAuthority))
	require.NoError(t, trust.Still(signed, noon))

	for name, change := range map[string]func(*op.Signed){
		"principal":   func(s *op.Signed) { s.Principal = "bob@example.com" },
		"role":        func(s *op.Signed) { s.Role = op.Recovery },
		"key":         func(s *op.Signed) { s.Key = ca.Fingerprint() },
		"CA":          func(s *op.Signed) { s.CA = alice.Fingerprint() },
		"no CA":       func(s *op.Signed) { s.CA = "" },
		"no armor":    func(s *op.Signed) { s.Armor = "" },
		"plain armor": func(s *op.Signed) { s.Armor = mint.Sign(t, alice, nsOperational, payloadOf(t)).Armored() },
	} {
		other := signed
		change(&other)
		require.ErrorIs(t, trust.Still(other, noon), refusal.UnknownSigner, name)
	}
	require.ErrorIs(t, loaded(t).Still(signed, noon), refusal.UnknownSigner)
	require.ErrorIs(t, loaded(t, alice.Line("alice@example.com", asOperator)).Still(signed, noon), refusal.UnknownSigner)
	require.ErrorIs(t, loaded(t, ca.Line("bob@*", asAuthority)).Still(signed, noon), refusal.UnknownSigner)
	require.ErrorIs(t, (*authz.Trust)(nil).Still(signed, noon), refusal.UnknownSigner)
	for _, key := range []mint.Key{alice, ca} {
		require.ErrorIs(t, trust.WithRevoked(revoking(t, key.Fingerprint())).Still(signed, noon), refusal.SignerRevoked)
	}

	plain := op.Signed{Principal: "alice@example.com", Role: op.Operational, Key: alice.Fingerprint(), Armor: armor}
	require.NoError(t, loaded(t, alice.Line("alice@example.com", asOperator)).Still(plain, noon))
	require.ErrorIs(t, loaded(t, alice.Line("alice@example.com", asAuthority)).Still(plain, noon), refusal.UnknownSigner)
}

// TestLongestCertificate: keys of 16,384 bits fit into the limits, even in a
// certificate by another such key.
func TestLongestCertificate(t *testing.T) {
	t.Parallel()
	huge := func(last byte) []byte {
		n := append([]byte(strings.Repeat("\xfd", 2047)), last)
		return mint.Strings([]byte("ssh-rsa"), []byte{1, 0, 1}, append([]byte{0}, n...))
	}
	name := strings.Repeat("a", 255)
	fields := [][]byte{mint.String("ssh-rsa-cert-v01@openssh.com"), mint.String(strings.Repeat("n", 32)), huge(1)[len(mint.String("ssh-rsa")):],
		mint.Uint64(1), mint.Uint32(mint.UserCert), mint.String(name), mint.String(mint.String(name)), mint.Uint64(0), mint.Uint64(1 << 63),
		mint.String(""), mint.String(strings.Repeat("\x00", 8)), mint.String(""), mint.String(huge(3))}
	fields[10] = mint.String("")
	signature := mint.Strings([]byte("rsa-sha2-512"), make([]byte, 2048))
	s := mint.Unsigned(slices.Concat(append(fields, mint.String(signature))...), nsOperational)
	s.Format, s.Value = "rsa-sha2-512", make([]byte, 2048)
	require.Less(t, len(s.Armored()), authz.MaxArmor-2048)
	trust := loaded(t, `* `+asAuthority+` `+mint.Text("ssh-rsa", huge(3))+"\n")
	_, err := approves(t, trust, s, noon)
	refusedAs(t, err, refusal.BadSignature, refusal.StageCrypto)
}
