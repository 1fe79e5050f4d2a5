package authz

import (
	"slices"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"gated/internal/base/refusal"
	"gated/internal/test/mint"
)

func TestSignatureRefusals(t *testing.T) {
	t.Parallel()
	v, payload := testVerifier(t), encode(t, testPayload)
	alice, rolf := testKey(t, "alice"), testKey(t, "rsa-3072")
	minted := mint.Sign(t, alice, "operational@gated", payload)
	inNamespace := func(ns string) mint.Signature { return mint.Sign(t, alice, ns, payload) }
	with := func(change func(*mint.Signature)) mint.Signature {
		f := minted
		change(&f)
		return f
	}
	resigned := func(change func(*mint.Signature)) mint.Signature { return with(change).By(t, alice, payload) }
	weakKey := mint.RSA(t, "weak", 2048)
	sk := slices.Concat(mint.String("sk-ssh-ed25519@openssh.com"), mint.String(strings.Repeat("k", 32)), mint.String("ssh:"))

	for _, c := range []struct {
		name  string
		sig   mint.Signature
		code  refusal.Code
		stage refusal.Stage
	}{
		{"S03 key not listed", mint.Sign(t, testKey(t, "bob"), "operational@gated", payload), refusal.UnknownSigner, refusal.StageAllowList},
		{"S04 other bytes", mint.Sign(t, alice, "operational@gated", []byte("other")), refusal.BadSignature, refusal.StageCrypto},
		{"S05 git", inNamespace("git"), refusal.NamespaceMismatch, refusal.StageNamespace},
		{"S05 file", inNamespace("file"), refusal.NamespaceMismatch, refusal.StageNamespace},
		{"S05 empty", inNamespace(""), refusal.NamespaceMismatch, refusal.StageNamespace},
		{"S05 space", inNamespace("operational@gated "), refusal.NamespaceMismatch, refusal.StageNamespace},
		{"S05 case", inNamespace("Operational@gated"), refusal.NamespaceMismatch, refusal.StageNamespace},
		{"S05 NUL", inNamespace("operational@gated\x00"), refusal.NamespaceMismatch, refusal.StageNamespace},
		{"S05 only the suffix", inNamespace("@gated"), refusal.NamespaceMismatch, refusal.StageNamespace},
		{"S06 role the key is not listed for", inNamespace("recovery@gated"), refusal.UnknownSigner, refusal.StageAllowList},
		{"S06 namespace relabelled", with(func(f *mint.Signature) { f.Namespace = "coordination@gated" }), refusal.UnknownSigner, refusal.StageAllowList},
		{"S09 RSA 2048", mint.Sign(t, weakKey, "operational@gated", payload), refusal.WeakKey, refusal.StageDecode},
		{"S09 SHA-1", mint.Sign(t, rolf, "operational@gated", payload).As(t, rolf, ssh.KeyAlgoRSA, payload), refusal.WeakKey, refusal.StageDecode},
		{"S09 DSA", with(func(f *mint.Signature) { f.Key = mint.String("ssh-dss") }), refusal.WeakKey, refusal.StageDecode},
		{"S09 DSA certificate", with(func(f *mint.Signature) { f.Key = mint.String(dsaCert) }), refusal.WeakKey, refusal.StageDecode},
		{"S12 inner trailing", with(func(f *mint.Signature) { f.Rest = []byte("x") }), refusal.Malformed, refusal.StageDecode},
		{"S12 inner trailing string", with(func(f *mint.Signature) { f.Rest = make([]byte, 4) }), refusal.Malformed, refusal.StageDecode},
		{"S12 outer trailing", with(func(f *mint.Signature) { f.Trailing = []byte("x") }), refusal.Malformed, refusal.StageDecode},
		{"S12 hash differs", with(func(f *mint.Signature) { f.Hash = "sha256" }), refusal.BadSignature, refusal.StageCrypto},
		{"S12 hash unknown", with(func(f *mint.Signature) { f.Hash = "sha1" }), refusal.Malformed, refusal.StageDecode},
		{"S12 hash empty", with(func(f *mint.Signature) { f.Hash = "" }), refusal.Malformed, refusal.StageDecode},
		{"S12 hash in capitals", with(func(f *mint.Signature) { f.Hash = "SHA512" }), refusal.Malformed, refusal.StageDecode},
		{"S12 reserved, unsigned", with(func(f *mint.Signature) { f.Reserved = "r" }), refusal.Malformed, refusal.StageDecode},
		{"S12 reserved, signed", resigned(func(f *mint.Signature) { f.Reserved = "r" }), refusal.Malformed, refusal.StageDecode},
		{"magic", with(func(f *mint.Signature) { f.Magic = "SSHSIg" }), refusal.Malformed, refusal.StageDecode},
		{"version 0", with(func(f *mint.Signature) { f.Version = 0 }), refusal.Malformed, refusal.StageDecode},
		{"version 2", with(func(f *mint.Signature) { f.Version = 2 }), refusal.Malformed, refusal.StageDecode},
		{"key trailing", with(func(f *mint.Signature) { f.Key = slices.Concat(f.Key, []byte{0}) }), refusal.Malformed, refusal.StageDecode},
		{"key empty", with(func(f *mint.Signature) { f.Key = nil }), refusal.Malformed, refusal.StageDecode},
		{"key of another", with(func(f *mint.Signature) { f.Key = testKey(t, "bob").PublicKey().Marshal() }), refusal.UnknownSigner, refusal.StageAllowList},
		{"key of another type", with(func(f *mint.Signature) { f.Key = rolf.PublicKey().Marshal() }), refusal.Malformed, refusal.StageDecode},
		{"key of an unknown type", with(func(f *mint.Signature) { f.Key = mint.String("ssh-xmss@openssh.com") }), refusal.UnknownSigner, refusal.StageAllowList},
		{"security key, signature of a plain one", with(func(f *mint.Signature) { f.Key = sk }), refusal.Malformed, refusal.StageDecode},
		{"security key that is not listed", with(func(f *mint.Signature) {
			f.Key, f.Format, f.Rest = sk, ssh.KeyAlgoSKED25519, []byte("\x01\x00\x00\x00\x01")
		}), refusal.UnknownSigner, refusal.StageAllowList},
		{"key of an unknown type in a foreign namespace", resigned(func(f *mint.Signature) { f.Key, f.Namespace = mint.String("ssh-xmss@openssh.com"), "git" }), refusal.NamespaceMismatch, refusal.StageNamespace},
		{"certificate that is a name alone", with(func(f *mint.Signature) { f.Key = mint.String(ssh.CertAlgoED25519v01) }), refusal.Malformed, refusal.StageDecode},
		{"inner format of another type", with(func(f *mint.Signature) { f.Format = ssh.KeyAlgoRSASHA512 }), refusal.Malformed, refusal.StageDecode},
		{"inner value short", with(func(f *mint.Signature) { f.Value = f.Value[:63] }), refusal.Malformed, refusal.StageDecode},
		{"inner value empty", with(func(f *mint.Signature) { f.Value = nil }), refusal.Malformed, refusal.StageDecode},
	} {
		_, err := v.Approval(Envelope{Payload: payload, Signatures: []string{c.sig.Armored()}}, issued)
		t.Run(c.name, func(t *testing.T) { refused(t, err, c.code, c.stage) })
	}
}

// TestInnerForms changes the inner signature in ways that the mathematics would
// miss, or refuse late. Each is refused by its form.
func TestInnerForms(t *testing.T) {
	t.Parallel()
	v, payload := testVerifier(t), encode(t, testPayload)
	erin := mint.Sign(t, testKey(t, "ecdsa-p256"), "operational@gated", payload)
	pair := wire{rest: erin.Value}
	r, s := string(pair.next()), string(pair.next())
	rolf := mint.Sign(t, testKey(t, "rsa-3072"), "operational@gated", payload)
	value := func(f mint.Signature, parts ...[]byte) mint.Signature {
		f.Value = slices.Concat(parts...)
		return f
	}
	format := func(f mint.Signature, name string) mint.Signature {
		f.Format = name
		return f
	}
	keyed := func(f mint.Signature, typ string) mint.Signature {
		f.Key = mint.String(typ)
		return f
	}
	for name, f := range map[string]mint.Signature{
		"ecdsa, bytes after the pair":    value(erin, erin.Value, []byte{0}),
		"ecdsa, a third number":          value(erin, erin.Value, mint.String("\x01")),
		"ecdsa, padded r":                value(erin, mint.String("\x00\x00"+r), mint.String(s)),
		"ecdsa, padded s":                value(erin, mint.String(r), mint.String("\x00\x00"+s)),
		"ecdsa, padded small r":          value(erin, mint.String("\x00\x01"), mint.String(s)),
		"ecdsa, zero r":                  value(erin, mint.String(""), mint.String(s)),
		"ecdsa, zero s":                  value(erin, mint.String(r), mint.String("")),
		"ecdsa, zero s, long":            value(erin, mint.String(r), mint.String("\x00")),
		"ecdsa, negative r":              value(erin, mint.String("\xff"), mint.String(s)),
		"ecdsa, negative s":              value(erin, mint.String(r), mint.String("\x80")),
		"ecdsa, r alone":                 value(erin, mint.String(r)),
		"ecdsa, other curve":             format(erin, ssh.KeyAlgoECDSA384),
		"ecdsa, security key's format":   format(erin, "sk-ecdsa-sha2-nistp256@openssh.com"),
		"rsa, cut at its end":            value(rolf, rolf.Value[:383]),
		"rsa, cut at its start":          value(rolf, rolf.Value[1:]),
		"rsa, padded":                    value(rolf, []byte{0}, rolf.Value),
		"rsa, format of a certificate":   format(rolf, ssh.CertAlgoRSASHA512v01),
		"rsa, format of ed25519":         format(rolf, ssh.KeyAlgoED25519),
		"key type of 65 bytes":           keyed(erin, strings.Repeat("k", 65)),
		"key type with a control":        keyed(erin, "ssh-\x1b[31m"),
		"key type with a space":          keyed(erin, "ssh ed25519"),
		"key type beyond ASCII":          keyed(erin, "ssh-\u00e9d25519"),
		"key type that ends in a delete": keyed(erin, "ssh-ed25519\x7f"),
	} {
		_, err := v.Approval(Envelope{Payload: payload, Signatures: []string{f.Armored()}}, issued)
		t.Run(name, func(t *testing.T) { refused(t, err, refusal.Malformed, refusal.StageDecode) })
	}
	for name, f := range map[string]mint.Signature{
		"rsa, the other hash":    format(rolf, ssh.KeyAlgoRSASHA256),
		"ecdsa, r and s swapped": value(erin, mint.String(s), mint.String(r)),
	} {
		_, err := v.Approval(Envelope{Payload: payload, Signatures: []string{f.Armored()}}, issued)
		t.Run(name, func(t *testing.T) { refused(t, err, refusal.BadSignature, refusal.StageCrypto) })
	}
	_, err := v.Approval(Envelope{Payload: payload, Signatures: []string{keyed(erin, strings.Repeat("k", 64)).Armored()}}, issued)
	refused(t, err, refusal.UnknownSigner, refusal.StageAllowList)
}

// TestUselessListedKey: a key that can make no signature may be listed, and does no
// harm.
func TestUselessListedKey(t *testing.T) {
	t.Parallel()
	payload := encode(t, testPayload)
	even := slices.Concat(mint.String("ssh-rsa"), mint.String("\x01\x00\x01"), mint.String("\x00"+strings.Repeat("\xfe", 384)))
	lowOrder := slices.Concat(mint.String("ssh-ed25519"), mint.String(strings.Repeat("\x00", 32)))
	for _, f := range []mint.Signature{
		{Key: even, Format: ssh.KeyAlgoRSASHA512, Value: make([]byte, 384)},
		{Key: even, Format: ssh.KeyAlgoRSASHA512, Value: []byte(strings.Repeat("\xff", 384))},
		{Key: lowOrder, Format: ssh.KeyAlgoED25519, Value: []byte(strings.Repeat("\xff", 64))},
	} {
		f.Magic, f.Version, f.Namespace, f.Hash = "SSHSIG", 1, "operational@gated", "sha512"
		v := testVerifier(t)
		v.Trust = loadTrust(t, wireLine(keyType(f.Key), f.Key))
		_, err := v.Approval(Envelope{Payload: payload, Signatures: []string{f.Armored()}}, issued)
		refused(t, err, refusal.BadSignature, refusal.StageCrypto)
	}
}
