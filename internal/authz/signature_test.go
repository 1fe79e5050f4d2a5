package authz

import (
	"crypto/rand"
	"crypto/rsa"
	"slices"
	"strings"
	"testing"

	"github.com/hiddeco/sshsig"
	"golang.org/x/crypto/ssh"

	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

func TestSignatureRefusals(t *testing.T) {
	t.Parallel()
	v, payload := testVerifier(t), encode(t, testPayload)
	alice, rolf := testKey(t, "alice"), testKey(t, "rsa-3072")
	minted := mint(t, alice, "operational@gated", sshsig.HashSHA512, payload)
	inNamespace := func(ns string) forge { return mint(t, alice, ns, sshsig.HashSHA512, payload) }
	with := func(change func(*forge)) forge {
		f := minted
		change(&f)
		return f
	}
	resigned := func(change func(*forge)) forge { return with(change).signedBy(t, alice, payload) }
	weak := must.Get(rsa.GenerateKey(rand.Reader, 2048))(t)
	weakKey := must.Get(ssh.NewSignerFromKey(weak))(t)
	sk := slices.Concat(sshString("sk-ssh-ed25519@openssh.com"), sshString(strings.Repeat("k", 32)), sshString("ssh:"))

	for _, c := range []struct {
		name  string
		sig   forge
		code  refusal.Code
		stage refusal.Stage
	}{
		{"S03 key not listed", mint(t, testKey(t, "bob"), "operational@gated", sshsig.HashSHA512, payload), refusal.UnknownSigner, refusal.StageAllowList},
		{"S04 other bytes", mint(t, alice, "operational@gated", sshsig.HashSHA512, []byte("other")), refusal.BadSignature, refusal.StageCrypto},
		{"S05 git", inNamespace("git"), refusal.NamespaceMismatch, refusal.StageNamespace},
		{"S05 file", inNamespace("file"), refusal.NamespaceMismatch, refusal.StageNamespace},
		{"S05 empty", inNamespace(""), refusal.NamespaceMismatch, refusal.StageNamespace},
		{"S05 space", inNamespace("operational@gated "), refusal.NamespaceMismatch, refusal.StageNamespace},
		{"S05 case", inNamespace("Operational@gated"), refusal.NamespaceMismatch, refusal.StageNamespace},
		{"S05 NUL", inNamespace("operational@gated\x00"), refusal.NamespaceMismatch, refusal.StageNamespace},
		{"S05 only the suffix", inNamespace("@gated"), refusal.NamespaceMismatch, refusal.StageNamespace},
		{"S06 role the key is not listed for", inNamespace("recovery@gated"), refusal.UnknownSigner, refusal.StageAllowList},
		{"S06 namespace relabelled", with(func(f *forge) { f.namespace = "coordination@gated" }), refusal.UnknownSigner, refusal.StageAllowList},
		{"S09 RSA 2048", mint(t, weakKey, "operational@gated", sshsig.HashSHA512, payload), refusal.WeakKey, refusal.StageDecode},
		{"S09 SHA-1", mint(t, rolf, "operational@gated", sshsig.HashSHA512, payload).signedAs(t, rolf, ssh.KeyAlgoRSA, payload), refusal.WeakKey, refusal.StageDecode},
		{"S09 DSA", with(func(f *forge) { f.key = sshString("ssh-dss") }), refusal.WeakKey, refusal.StageDecode},
		{"S09 DSA certificate", with(func(f *forge) { f.key = sshString(dsaCert) }), refusal.WeakKey, refusal.StageDecode},
		{"S12 inner trailing", with(func(f *forge) { f.innerTrailing = "x" }), refusal.Malformed, refusal.StageDecode},
		{"S12 inner trailing string", with(func(f *forge) { f.innerTrailing = "\x00\x00\x00\x00" }), refusal.Malformed, refusal.StageDecode},
		{"S12 outer trailing", with(func(f *forge) { f.outerTrailing = "x" }), refusal.Malformed, refusal.StageDecode},
		{"S12 hash differs", with(func(f *forge) { f.hash = "sha256" }), refusal.BadSignature, refusal.StageCrypto},
		{"S12 hash unknown", with(func(f *forge) { f.hash = "sha1" }), refusal.Malformed, refusal.StageDecode},
		{"S12 hash empty", with(func(f *forge) { f.hash = "" }), refusal.Malformed, refusal.StageDecode},
		{"S12 hash in capitals", with(func(f *forge) { f.hash = "SHA512" }), refusal.Malformed, refusal.StageDecode},
		{"S12 reserved, unsigned", with(func(f *forge) { f.reserved = "r" }), refusal.Malformed, refusal.StageDecode},
		{"S12 reserved, signed", resigned(func(f *forge) { f.reserved = "r" }), refusal.Malformed, refusal.StageDecode},
		{"magic", with(func(f *forge) { f.magic = "SSHSIg" }), refusal.Malformed, refusal.StageDecode},
		{"version 0", with(func(f *forge) { f.version = 0 }), refusal.Malformed, refusal.StageDecode},
		{"version 2", with(func(f *forge) { f.version = 2 }), refusal.Malformed, refusal.StageDecode},
		{"key trailing", with(func(f *forge) { f.key = slices.Concat(f.key, []byte{0}) }), refusal.Malformed, refusal.StageDecode},
		{"key empty", with(func(f *forge) { f.key = nil }), refusal.Malformed, refusal.StageDecode},
		{"key of another", with(func(f *forge) { f.key = testKey(t, "bob").PublicKey().Marshal() }), refusal.UnknownSigner, refusal.StageAllowList},
		{"key of another type", with(func(f *forge) { f.key = rolf.PublicKey().Marshal() }), refusal.Malformed, refusal.StageDecode},
		{"key of an unknown type", with(func(f *forge) { f.key = sshString("ssh-xmss@openssh.com") }), refusal.UnknownSigner, refusal.StageAllowList},
		{"security key, signature of a plain one", with(func(f *forge) { f.key = sk }), refusal.Malformed, refusal.StageDecode},
		{"security key that is not listed", with(func(f *forge) {
			f.key, f.format, f.innerTrailing = sk, ssh.KeyAlgoSKED25519, "\x01\x00\x00\x00\x01"
		}), refusal.UnknownSigner, refusal.StageAllowList},
		{"key of an unknown type in a foreign namespace", resigned(func(f *forge) { f.key, f.namespace = sshString("ssh-xmss@openssh.com"), "git" }), refusal.NamespaceMismatch, refusal.StageNamespace},
		{"certificate that is a name alone", with(func(f *forge) { f.key = sshString(ssh.CertAlgoED25519v01) }), refusal.Malformed, refusal.StageDecode},
		{"inner format of another type", with(func(f *forge) { f.format = ssh.KeyAlgoRSASHA512 }), refusal.Malformed, refusal.StageDecode},
		{"inner value short", with(func(f *forge) { f.value = f.value[:63] }), refusal.Malformed, refusal.StageDecode},
		{"inner value empty", with(func(f *forge) { f.value = nil }), refusal.Malformed, refusal.StageDecode},
	} {
		_, err := v.Approval(Envelope{Payload: payload, Signatures: []string{c.sig.armored()}}, issued)
		t.Run(c.name, func(t *testing.T) { refused(t, err, c.code, c.stage) })
	}
}

// TestInnerForms changes the inner signature in ways that the mathematics would
// miss, or refuse late. Each is refused by its form.
func TestInnerForms(t *testing.T) {
	t.Parallel()
	v, payload := testVerifier(t), encode(t, testPayload)
	erin := mint(t, testKey(t, "ecdsa-p256"), "operational@gated", sshsig.HashSHA512, payload)
	pair := wire{rest: erin.value}
	r, s := string(pair.next()), string(pair.next())
	rolf := mint(t, testKey(t, "rsa-3072"), "operational@gated", sshsig.HashSHA512, payload)
	value := func(f forge, parts ...[]byte) forge {
		f.value = slices.Concat(parts...)
		return f
	}
	format := func(f forge, name string) forge {
		f.format = name
		return f
	}
	keyed := func(f forge, typ string) forge {
		f.key = sshString(typ)
		return f
	}
	for name, f := range map[string]forge{
		"ecdsa, bytes after the pair":    value(erin, erin.value, []byte{0}),
		"ecdsa, a third number":          value(erin, erin.value, sshString("\x01")),
		"ecdsa, padded r":                value(erin, sshString("\x00\x00"+r), sshString(s)),
		"ecdsa, padded s":                value(erin, sshString(r), sshString("\x00\x00"+s)),
		"ecdsa, padded small r":          value(erin, sshString("\x00\x01"), sshString(s)),
		"ecdsa, zero r":                  value(erin, sshString(""), sshString(s)),
		"ecdsa, zero s":                  value(erin, sshString(r), sshString("")),
		"ecdsa, zero s, long":            value(erin, sshString(r), sshString("\x00")),
		"ecdsa, negative r":              value(erin, sshString("\xff"), sshString(s)),
		"ecdsa, negative s":              value(erin, sshString(r), sshString("\x80")),
		"ecdsa, r alone":                 value(erin, sshString(r)),
		"ecdsa, other curve":             format(erin, ssh.KeyAlgoECDSA384),
		"ecdsa, security key's format":   format(erin, "sk-ecdsa-sha2-nistp256@openssh.com"),
		"rsa, cut at its end":            value(rolf, rolf.value[:383]),
		"rsa, cut at its start":          value(rolf, rolf.value[1:]),
		"rsa, padded":                    value(rolf, []byte{0}, rolf.value),
		"rsa, format of a certificate":   format(rolf, ssh.CertAlgoRSASHA512v01),
		"rsa, format of ed25519":         format(rolf, ssh.KeyAlgoED25519),
		"key type of 65 bytes":           keyed(erin, strings.Repeat("k", 65)),
		"key type with a control":        keyed(erin, "ssh-\x1b[31m"),
		"key type with a space":          keyed(erin, "ssh ed25519"),
		"key type beyond ASCII":          keyed(erin, "ssh-\u00e9d25519"),
		"key type that ends in a delete": keyed(erin, "ssh-ed25519\x7f"),
	} {
		_, err := v.Approval(Envelope{Payload: payload, Signatures: []string{f.armored()}}, issued)
		t.Run(name, func(t *testing.T) { refused(t, err, refusal.Malformed, refusal.StageDecode) })
	}
	for name, f := range map[string]forge{
		"rsa, the other hash":    format(rolf, ssh.KeyAlgoRSASHA256),
		"ecdsa, r and s swapped": value(erin, sshString(s), sshString(r)),
	} {
		_, err := v.Approval(Envelope{Payload: payload, Signatures: []string{f.armored()}}, issued)
		t.Run(name, func(t *testing.T) { refused(t, err, refusal.BadSignature, refusal.StageCrypto) })
	}
	_, err := v.Approval(Envelope{Payload: payload, Signatures: []string{keyed(erin, strings.Repeat("k", 64)).armored()}}, issued)
	refused(t, err, refusal.UnknownSigner, refusal.StageAllowList)
}

// TestUselessListedKey: a key that can make no signature may be listed, and does no
// harm.
func TestUselessListedKey(t *testing.T) {
	t.Parallel()
	payload := encode(t, testPayload)
	even := slices.Concat(sshString("ssh-rsa"), sshString("\x01\x00\x01"), sshString("\x00"+strings.Repeat("\xfe", 384)))
	lowOrder := slices.Concat(sshString("ssh-ed25519"), sshString(strings.Repeat("\x00", 32)))
	for _, f := range []forge{
		{key: even, format: ssh.KeyAlgoRSASHA512, value: make([]byte, 384)},
		{key: even, format: ssh.KeyAlgoRSASHA512, value: []byte(strings.Repeat("\xff", 384))},
		{key: lowOrder, format: ssh.KeyAlgoED25519, value: []byte(strings.Repeat("\xff", 64))},
	} {
		f.magic, f.version, f.namespace, f.hash = "SSHSIG", 1, "operational@gated", "sha512"
		v := testVerifier(t)
		v.Trust = loadTrust(t, wireLine(keyType(f.key), f.key))
		_, err := v.Approval(Envelope{Payload: payload, Signatures: []string{f.armored()}}, issued)
		refused(t, err, refusal.BadSignature, refusal.StageCrypto)
	}
}
