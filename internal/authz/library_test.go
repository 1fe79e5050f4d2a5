package authz_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/hiddeco/sshsig"
	"github.com/stretchr/testify/require"

	"gated/internal/authz"
	"gated/internal/base/refusal"
	"gated/internal/test/mint"
	"gated/internal/test/must"
)

// These tests compare the libraries with this package. They show for each item that
// the libraries accept it and that gated refuses it. Some items are marked because
// the libraries refuse them now, so a change of the libraries is noticed.

// libraryAccepts does what a program does that trusts the libraries: it parses, and
// verifies in the namespace and with the hash that it chose.
func libraryAccepts(armored, namespace string, payload []byte) error {
	parsed, err := sshsig.Unarmor([]byte(armored))
	if err != nil {
		return err
	}
	return sshsig.Verify(bytes.NewReader(payload), parsed, parsed.PublicKey, sshsig.HashSHA512, namespace)
}

// cast has the keys of these tests, and a file that lists all of them: alice and
// others as keys, and the people that the CA certifies at example.com.
type cast struct {
	payload                            []byte
	alice, erin, rolf, weak, ca, rsaCA mint.Key
	sk, skECDSA                        mint.Key
	trust                              *authz.Trust
}

func newCast(t *testing.T) cast {
	t.Helper()
	c := cast{
		payload: payloadOf(t), alice: mint.Ed25519(t, "alice"), erin: mint.ECDSA(t, "erin", 256), rolf: mint.RSA(t, "erin", 3072),
		weak: mint.RSA(t, "weak", 2048), ca: mint.Ed25519(t, "ca"), rsaCA: mint.RSA(t, "ca", 3072),
		sk: mint.SKEd25519(t, "sk", mint.Touched), skECDSA: mint.SKECDSA(t, "sk", mint.Touched),
	}
	c.trust = loaded(t, c.alice.Line("alice", asOperator), c.erin.Line("erin", asOperator), c.rolf.Line("rolf", asOperator),
		c.sk.Line("sk", asOperator), c.skECDSA.Line("sk-ecdsa", asOperator),
		c.ca.Line("*@example.com", asAuthority), c.rsaCA.Line("*@example.com", asAuthority))
	return c
}

// by signs in ssh-keygen's form.
func (c cast) by(t *testing.T, key mint.Key) mint.Signature {
	t.Helper()
	return mint.Sign(t, key, nsOperational, c.payload)
}

// certified signs with alice's key under a changed certificate.
func (c cast) certified(t *testing.T, key mint.Key, change func(*mint.Cert)) mint.Signature {
	t.Helper()
	cert := mint.Certify(c.ca, key, "alice@example.com")
	if change != nil {
		change(&cert)
	}
	return mint.SignWith(t, cert, key, nsOperational, c.payload)
}

// changed returns the signature with a part changed afterwards.
func changed(s mint.Signature, change func(*mint.Signature)) mint.Signature {
	change(&s)
	return s
}

// refusedEverywhere asserts the code and the stage, for the check of a file and of a
// gate.
func refusedEverywhere(t *testing.T, c cast, armored string, code refusal.Code, stage refusal.Stage) {
	t.Helper()
	_, fileErr := authz.VerifyFile(c.payload, armored, c.trust, noon)
	_, gateErr := verifier(c.trust).Approval(authz.Envelope{Payload: c.payload, Signatures: []string{armored}}, noon)
	for _, err := range []error{fileErr, gateErr} {
		require.ErrorIs(t, err, code)
		require.Equal(t, stage, refusal.As(err).Stage, "%v", err)
	}
}

// TestTheCastIsGood: without a change, the signatures of the other tests are
// accepted.
func TestTheCastIsGood(t *testing.T) {
	t.Parallel()
	c := newCast(t)
	for principal, s := range map[string]mint.Signature{
		"alice": c.by(t, c.alice), "erin": c.by(t, c.erin), "rolf": c.by(t, c.rolf), "sk": c.by(t, c.sk), "sk-ecdsa": c.by(t, c.skECDSA),
		"alice@example.com": c.certified(t, c.alice, nil),
	} {
		require.NoError(t, libraryAccepts(s.Armored(), nsOperational, c.payload), principal)
		signer := must.Get(authz.VerifyFile(c.payload, s.Armored(), c.trust, noon))(t, principal)
		require.Equal(t, principal, signer.Principal)
	}
}

// TestWhatTheLibrariesLeaveOpen goes through the list of protocol section 2.
func TestWhatTheLibrariesLeaveOpen(t *testing.T) {
	t.Parallel()
	c := newCast(t)
	good := c.by(t, c.alice)
	armored := good.Armored()
	const begin = "-----BEGIN SSH SIGNATURE-----\n"
	rsaCert := mint.Certify(c.ca, c.rolf, "rolf@example.com")
	sha1 := mint.Unsigned(rsaCert.Blob(t), nsOperational).As(t, c.rolf, "ssh-rsa", c.payload)
	unnamed := mint.Sign(t, c.alice, "", c.payload)
	for _, x := range []struct {
		name      string
		armored   string
		namespace string
		code      refusal.Code
		stage     refusal.Stage
	}{
		{"trailing bytes inside the inner signature", changed(good, func(s *mint.Signature) { s.Rest = []byte("x") }).Armored(), nsOperational, refusal.Malformed, refusal.StageDecode},
		{"the same of ECDSA", changed(c.by(t, c.erin), func(s *mint.Signature) { s.Rest = []byte{0} }).Armored(), nsOperational, refusal.Malformed, refusal.StageDecode},
		{"the same of RSA", changed(c.by(t, c.rolf), func(s *mint.Signature) { s.Rest = make([]byte, 5) }).Armored(), nsOperational, refusal.Malformed, refusal.StageDecode},
		{"the blob's hash differs from the one verified with", changed(good, func(s *mint.Signature) { s.Hash = mint.SHA256 }).Armored(), nsOperational, refusal.BadSignature, refusal.StageCrypto},
		{"an RSA certificate with a SHA-1 signature", sha1.Armored(), nsOperational, refusal.WeakKey, refusal.StageDecode},
		{"a certificate whose CA signature is wrong", c.certified(t, c.alice, func(x *mint.Cert) { *x = x.Forged(t) }).Armored(), nsOperational, refusal.BadSignature, refusal.StageCrypto},
		{"a certificate that says another CA signed it", c.certified(t, c.alice, func(x *mint.Cert) { x.CABlob, x.CA = c.ca.Blob(), mint.Ed25519(t, "mallory") }).Armored(), nsOperational, refusal.BadSignature, refusal.StageCrypto},
		{"a certificate that is expired", c.certified(t, c.alice, func(x *mint.Cert) { x.ValidBefore = noon }).Armored(), nsOperational, refusal.SignerExpired, refusal.StageAllowList},
		{"a host certificate", c.certified(t, c.alice, func(x *mint.Cert) { x.Kind = mint.HostCert }).Armored(), nsOperational, refusal.UnknownSigner, refusal.StageAllowList},
		{"a certificate without principals", c.certified(t, c.alice, func(x *mint.Cert) { x.Principals = nil }).Armored(), nsOperational, refusal.UnknownSigner, refusal.StageAllowList},
		{"an empty namespace", unnamed.Armored(), "", refusal.NamespaceMismatch, refusal.StageNamespace},
		{"text before the armor", "signed by me\n" + armored, nsOperational, refusal.Malformed, refusal.StageDecode},
		{"text after the armor", armored + "thanks\n", nsOperational, refusal.Malformed, refusal.StageDecode},
		{"PEM headers", strings.Replace(armored, begin, begin+"Comment: x\n\n", 1), nsOperational, refusal.Malformed, refusal.StageDecode},
		{"leading blank lines", "\n\n" + armored, nsOperational, refusal.Malformed, refusal.StageDecode},
		{"blank lines inside", strings.Replace(armored, begin, begin+"\n", 1), nsOperational, refusal.Malformed, refusal.StageDecode},
		{"a reserved field that is not empty", changed(good, func(s *mint.Signature) { s.Reserved = "r" }).Armored(), nsOperational, refusal.Malformed, refusal.StageDecode},
		// The list does not have these, and the libraries accept them too.
		{"RSA with 2,048 bits", c.by(t, c.weak).Armored(), nsOperational, refusal.WeakKey, refusal.StageDecode},
		{"DSA", c.by(t, mint.DSA(t, "old")).Armored(), nsOperational, refusal.WeakKey, refusal.StageDecode},
		{"a CA's signature with SHA-1", c.certified(t, c.alice, func(x *mint.Cert) { x.CA, x.Algorithm = c.rsaCA, "ssh-rsa" }).Armored(), nsOperational, refusal.WeakKey, refusal.StageDecode},
		{"a CA with 2,048 bits", c.certified(t, c.alice, func(x *mint.Cert) { x.CA = c.weak }).Armored(), nsOperational, refusal.WeakKey, refusal.StageDecode},
		{"a certificate of an unknown CA", c.certified(t, c.alice, func(x *mint.Cert) { x.CA = mint.Ed25519(t, "mallory") }).Armored(), nsOperational, refusal.UnknownSigner, refusal.StageAllowList},
		{"a certificate with an unknown critical option", c.certified(t, c.alice, func(x *mint.Cert) { x.Critical = []mint.Option{{Name: "riddle@example.com"}} }).Armored(), nsOperational, refusal.UnknownSigner, refusal.StageAllowList},
		{"a certificate with a reserved field", c.certified(t, c.alice, func(x *mint.Cert) { x.Reserved = "r" }).Armored(), nsOperational, refusal.Malformed, refusal.StageDecode},
	} {
		t.Run(x.name, func(t *testing.T) {
			require.NoError(t, libraryAccepts(x.armored, x.namespace, c.payload), "the bare library accepted this once: see whether it is still to be closed here")
			refusedEverywhere(t, c, x.armored, x.code, x.stage)
		})
	}
}

// TestWhatTheLibrariesRefuseToo: if a row fails, the library has changed. This
// package's own refusal stays.
func TestWhatTheLibrariesRefuseToo(t *testing.T) {
	t.Parallel()
	c := newCast(t)
	untouched := mint.Authenticator{Application: mint.Application, Counter: 9}
	nested := c.certified(t, c.alice, func(x *mint.Cert) { x.CABlob = mint.Certify(c.rsaCA, c.ca, "ca").Blob(t) })
	swapped := changed(c.by(t, c.sk), func(s *mint.Signature) { s.Rest = []byte{mint.UserPresent | mint.UserVerified, 0, 0, 0, 7} })
	for _, x := range []struct {
		name, armored, says string
		code                refusal.Code
		stage               refusal.Stage
	}{
		{"S08 security key without a touch", c.by(t, mint.SKEd25519(t, "sk", untouched)).Armored(), "user presence", refusal.TouchRequired, refusal.StageCrypto},
		{"S08 security key without a touch, ECDSA", c.by(t, mint.SKECDSA(t, "sk", untouched)).Armored(), "user presence", refusal.TouchRequired, refusal.StageCrypto},
		{"flags changed afterwards", swapped.Armored(), "did not verify", refusal.BadSignature, refusal.StageCrypto},
		{"S09 ssh-rsa", mint.Unsigned(c.rolf.Blob(), nsOperational).As(t, c.rolf, "ssh-rsa", c.payload).Armored(), "ssh-rsa", refusal.WeakKey, refusal.StageDecode},
		{"bytes after the blob", changed(c.by(t, c.alice), func(s *mint.Signature) { s.Trailing = []byte{0} }).Armored(), "parse error", refusal.Malformed, refusal.StageDecode},
		{"bytes after a certificate", c.certified(t, c.alice, func(x *mint.Cert) { x.Trailing = []byte{0} }).Armored(), "parse error", refusal.Malformed, refusal.StageDecode},
		{"bytes after the CA's signature", c.certified(t, c.alice, func(x *mint.Cert) { x.InnerRest = []byte{0} }).Armored(), "signature parse error", refusal.Malformed, refusal.StageDecode},
		{"S17 a certificate signed by a certificate", nested.Armored(), "invalid for certificates", refusal.Malformed, refusal.StageDecode},
		{"S12 reserved field that was signed", changed(c.by(t, c.alice), func(s *mint.Signature) { s.Reserved = "r" }).By(t, c.alice, c.payload).Armored(), "did not verify", refusal.Malformed, refusal.StageDecode},
	} {
		t.Run(x.name, func(t *testing.T) {
			require.ErrorContains(t, libraryAccepts(x.armored, nsOperational, c.payload), x.says)
			refusedEverywhere(t, c, x.armored, x.code, x.stage)
		})
	}
}

// TestOneKeyIsOneKey: S21. The gate counts people and keys, so both must report the
// same key for all its signatures.
func TestOneKeyIsOneKey(t *testing.T) {
	t.Parallel()
	c := newCast(t)
	both := []string{c.by(t, c.alice).Armored(), c.certified(t, c.alice, nil).Armored()}
	approval := must.Get(verifier(c.trust).Approval(authz.Envelope{Payload: c.payload, Signatures: both}, noon))(t)
	require.Len(t, approval.Signers, 2)
	require.Equal(t, approval.Signers[0].Key, approval.Signers[1].Key)
	require.NotEqual(t, approval.Signers[0].Principal, approval.Signers[1].Principal)
	two := c.certified(t, c.alice, func(x *mint.Cert) { x.Principals = []string{"alice@example.com", "amy@example.com"} })
	refusedEverywhere(t, c, two.Armored(), refusal.UnknownSigner, refusal.StageAllowList)
	// A good signature does not make up for a bad one.
	_, err := verifier(c.trust).Approval(authz.Envelope{Payload: c.payload, Signatures: append(slices.Clone(both), two.Armored())}, noon)
	require.ErrorIs(t, err, refusal.UnknownSigner)
}
