package authz_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/authz"
	"gated/internal/base/op"
	"gated/internal/test/mint"
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
			got, err := approves(t, trust, s, noon)
			require.NoError(t, err, "%s by %s", key.Type(), ca.Type())
			require.Equal(t, authz.Signer{Principal: key.Name + "@example.com", Role: op.Operational, Key: key.Fingerprint(),
				KeyType: key.Type(), CA: ca.Fingerprint(), Serial: 1<<64 - 1, Attested: attestedOf(key), Armor: s.Armored()}, got)
		}
	}
}

// certificateRefusals change one thing of a good certificate for alice.
var certificateRefusals = []struct {
	name   string
	change func(t mint.TB, c *mint.Cert)
	code   op.Code
	stage  op.Stage
}{
	{"S10 SHA-1 by the CA", func(t mint.TB, c *mint.Cert) { c.CA, c.Algorithm = mint.RSA(t, "ca", 3072), "ssh-rsa" }, op.WeakKey, op.StageDecode},
	{"S10 forged by one bit", func(t mint.TB, c *mint.Cert) { *c = c.Forged(t) }, op.BadSignature, op.StageCrypto},
	{"S10 signed by another", func(t mint.TB, c *mint.Cert) { c.CABlob, c.CA = c.CA.Blob(), mint.Ed25519(t, "mallory") }, op.BadSignature, op.StageCrypto},
	{"S10 CA not listed", func(t mint.TB, c *mint.Cert) { c.CA = mint.Ed25519(t, "mallory") }, op.UnknownSigner, op.StageAllowList},
	{"S10 CA of 2048 bits", func(t mint.TB, c *mint.Cert) { c.CA = mint.RSA(t, "weak", 2048) }, op.WeakKey, op.StageDecode},
	{"S10 DSA CA", func(t mint.TB, c *mint.Cert) { c.CABlob = mint.DSA(t, "old").Blob() }, op.WeakKey, op.StageDecode},
	{"S10 RSA key of 2048 bits", func(t mint.TB, c *mint.Cert) { c.Key = mint.RSA(t, "weak", 2048) }, op.WeakKey, op.StageDecode},
	{"S11 expired", func(_ mint.TB, c *mint.Cert) { c.ValidBefore = noon }, op.SignerExpired, op.StageAllowList},
	{"S11 not yet valid", func(_ mint.TB, c *mint.Cert) { c.ValidAfter = noon.Add(time.Second) }, op.SignerExpired, op.StageAllowList},
	{"S11 never valid", func(_ mint.TB, c *mint.Cert) { c.ValidAfter, c.ValidBefore = noon, noon }, op.SignerExpired, op.StageAllowList},
	{"S11 host type", func(_ mint.TB, c *mint.Cert) { c.Kind = mint.HostCert }, op.UnknownSigner, op.StageAllowList},
	{"S11 no principals", func(_ mint.TB, c *mint.Cert) { c.Principals = nil }, op.UnknownSigner, op.StageAllowList},
	{"S11 wrong principal", func(_ mint.TB, c *mint.Cert) { c.Principals = []string{"alice@example.org"} }, op.UnknownSigner, op.StageAllowList},
	{"S11 negated principal", func(_ mint.TB, c *mint.Cert) { c.Principals = []string{"root@example.com"} }, op.UnknownSigner, op.StageAllowList},
	{"S11 unknown critical option", func(_ mint.TB, c *mint.Cert) { c.Critical = []mint.Option{{Name: "x@example.com"}} }, op.UnknownSigner, op.StageAllowList},
	{"S11 force-command", func(_ mint.TB, c *mint.Cert) {
		c.Critical = []mint.Option{{Name: "force-command", Value: "/bin/true"}}
	}, op.UnknownSigner, op.StageAllowList},
	{"S11 source-address", func(_ mint.TB, c *mint.Cert) {
		c.Critical = []mint.Option{{Name: "source-address", Value: "192.0.2.0/24"}}
	}, op.UnknownSigner, op.StageAllowList},
	{"S11 verify-required with a value", func(_ mint.TB, c *mint.Cert) {
		c.Critical = []mint.Option{{Name: "verify-required", Value: "no"}}
	}, op.UnknownSigner, op.StageAllowList},
	{"S11 verify-required of a software key", func(_ mint.TB, c *mint.Cert) {
		c.Critical = []mint.Option{{Name: "verify-required"}}
	}, op.TouchRequired, op.StageCrypto},
	{"S21 two principals", func(_ mint.TB, c *mint.Cert) { c.Principals = []string{"alice@example.com", "bob@example.com"} }, op.UnknownSigner, op.StageAllowList},
	{"S21 one principal twice", func(_ mint.TB, c *mint.Cert) { c.Principals = []string{"alice@example.com", "alice@example.com"} }, op.UnknownSigner, op.StageAllowList},
	{"empty principal", func(_ mint.TB, c *mint.Cert) { c.Principals = []string{""} }, op.UnknownSigner, op.StageAllowList},
	{"pattern for a principal", func(_ mint.TB, c *mint.Cert) { c.Principals = []string{"*@example.com"} }, op.UnknownSigner, op.StageAllowList},
	{"list for a principal", func(_ mint.TB, c *mint.Cert) { c.Principals = []string{"alice,bob@example.com"} }, op.UnknownSigner, op.StageAllowList},
	{"newline in a principal", func(_ mint.TB, c *mint.Cert) { c.Principals = []string{"alice\n@example.com"} }, op.UnknownSigner, op.StageAllowList},
	{"NUL in a principal", func(_ mint.TB, c *mint.Cert) { c.Principals = []string{"alice\x00@example.com"} }, op.UnknownSigner, op.StageAllowList},
	{"long principal", func(_ mint.TB, c *mint.Cert) { c.Principals = []string{strings.Repeat("a", 256) + "@example.com"} }, op.UnknownSigner, op.StageAllowList},
	{"NUL in the key id", func(_ mint.TB, c *mint.Cert) { c.ID = "a\x00b" }, op.Malformed, op.StageDecode},
	{"neither user nor host", func(_ mint.TB, c *mint.Cert) { c.Kind = 3 }, op.Malformed, op.StageDecode},
	{"reserved bytes", func(_ mint.TB, c *mint.Cert) { c.Reserved = "r" }, op.Malformed, op.StageDecode},
	{"bytes after it", func(_ mint.TB, c *mint.Cert) { c.Trailing = []byte{0} }, op.Malformed, op.StageDecode},
	{"bytes after the CA's signature", func(_ mint.TB, c *mint.Cert) { c.InnerRest = []byte{0} }, op.Malformed, op.StageDecode},
	{"extensions out of order", func(_ mint.TB, c *mint.Cert) { slices.Reverse(c.Extensions) }, op.Malformed, op.StageDecode},
	{"extension twice", func(_ mint.TB, c *mint.Cert) { c.Extensions = append(c.Extensions, c.Extensions[4]) }, op.Malformed, op.StageDecode},
	{"critical option twice", func(_ mint.TB, c *mint.Cert) {
		c.Critical = []mint.Option{{Name: "verify-required"}, {Name: "verify-required"}}
	}, op.Malformed, op.StageDecode},
	{"S17 CA that is a certificate", func(t mint.TB, c *mint.Cert) { c.CABlob = mint.Certify(c.CA, c.CA, "ca").Blob(t) }, op.Malformed, op.StageDecode},
	{"CA without a key", func(_ mint.TB, c *mint.Cert) { c.CABlob = []byte{} }, op.Malformed, op.StageDecode},
	{"CA of an unknown type", func(_ mint.TB, c *mint.Cert) { c.CABlob = mint.String("ssh-xmss@openssh.com") }, op.UnknownSigner, op.StageAllowList},
	{"CA's signature in another format", func(_ mint.TB, c *mint.Cert) {
		c.Signature = mint.Strings("rsa-sha2-512", strings.Repeat("s", 64))
	}, op.Malformed, op.StageDecode},
	{"CA's security key not touched", func(t mint.TB, c *mint.Cert) { c.CA = mint.SKEd25519(t, "ca", said(0)) }, op.TouchRequired, op.StageCrypto},
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
			_, err := approves(t, trust, mint.SignWith(t, cert, alice, nsOperational, payloadOf(t)), noon)
			require.NoError(t, err)
			c.change(t, &cert)
			s := mint.Unsigned(cert.Blob(t), nsOperational).By(t, cert.Key, payloadOf(t))
			_, err = approves(t, trust, s, noon)
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
		code  op.Code
		stage op.Stage
	}{
		{"S10 SHA-1 inside", authority, mint.Unsigned(rsaCert.Blob(t), nsOperational).As(t, erin, "ssh-rsa", payload), op.WeakKey, op.StageDecode},
		{"another key signed", authority, mint.SignWith(t, cert, mint.Ed25519(t, "mallory"), nsOperational, payload), op.BadSignature, op.StageCrypto},
		{"the CA signed", authority, mint.SignWith(t, cert, ca, nsOperational, payload), op.BadSignature, op.StageCrypto},
		{"other bytes", authority, mint.SignWith(t, cert, alice, nsOperational, []byte("other")), op.BadSignature, op.StageCrypto},
		{"other role", authority, mint.SignWith(t, cert, alice, nsRecovery, payload), op.UnknownSigner, op.StageAllowList},
		{"S12 bytes inside", authority, changed(func(s *mint.Signature) { s.Rest = []byte{0} }), op.Malformed, op.StageDecode},
		{"format of a certificate", authority, changed(func(s *mint.Signature) { s.Format = cert.Type() }), op.Malformed, op.StageDecode},
		{"CA as a plain signer", authority, mint.Sign(t, ca, nsOperational, payload), op.UnknownSigner, op.StageAllowList},
		{"certified key as a plain signer", authority, mint.Sign(t, alice, nsOperational, payload), op.UnknownSigner, op.StageAllowList},
		{"certificate of a plain line's key", alice.Line("alice@example.com", asOperator), good, op.UnknownSigner, op.StageAllowList},
		{"CA listed as a plain key", ca.Line("alice@example.com", asOperator), good, op.UnknownSigner, op.StageAllowList},
		{"CA's line has ended", ca.Line(anybody, asAuthority+`,valid-before="20310504115959Z"`), good, op.SignerExpired, op.StageAllowList},
		{"CA's line is for another role", ca.Line(anybody, `cert-authority,namespaces="recovery@gated"`), good, op.UnknownSigner, op.StageAllowList},
		{"no line lists it", "", good, op.UnknownSigner, op.StageAllowList},
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
		require.ErrorIs(t, err, op.SignerExpired, "%s", at)
		require.ErrorIs(t, still, op.SignerExpired, "%s", at)
	}
}

func TestFirstAcceptingAuthorityWins(t *testing.T) {
	t.Parallel()
	alice, ca := mint.Ed25519(t, "alice"), mint.Ed25519(t, "ca")
	s := mint.SignWith(t, mint.Certify(ca, alice, "alice@example.com"), alice, nsOperational, payloadOf(t))
	_, err := approves(t, loaded(t,
		ca.Line("bob@example.com", asAuthority),
		ca.Line(anybody, `cert-authority,namespaces="recovery@gated"`),
		ca.Line(anybody, asAuthority+`,valid-before="20300101Z"`),
		alice.Line("alice@example.com", `namespaces="recovery@gated"`),
		ca.Line("al?ce@*", asAuthority)), s, noon)
	require.NoError(t, err)
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
		require.ErrorIs(t, trust.Still(other, noon), op.UnknownSigner, name)
	}
	require.ErrorIs(t, loaded(t).Still(signed, noon), op.UnknownSigner)
	require.ErrorIs(t, loaded(t, alice.Line("alice@example.com", asOperator)).Still(signed, noon), op.UnknownSigner)
	require.ErrorIs(t, loaded(t, ca.Line("bob@*", asAuthority)).Still(signed, noon), op.UnknownSigner)
	require.ErrorIs(t, (*authz.Trust)(nil).Still(signed, noon), op.UnknownSigner)
	for _, key := range []mint.Key{alice, ca} {
		require.ErrorIs(t, trust.WithRevoked(revoking(t, key.Fingerprint())).Still(signed, noon), op.SignerRevoked)
	}

	plain := op.Signed{Principal: "alice@example.com", Role: op.Operational, Key: alice.Fingerprint(), Armor: armor}
	require.NoError(t, loaded(t, alice.Line("alice@example.com", asOperator)).Still(plain, noon))
	require.ErrorIs(t, loaded(t, alice.Line("alice@example.com", asAuthority)).Still(plain, noon), op.UnknownSigner)
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
	refusedAs(t, err, op.BadSignature, op.StageCrypto)
}
