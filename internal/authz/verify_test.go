package authz

import (
	"crypto/rand"
	"crypto/rsa"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hiddeco/sshsig"
	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"

	"gated/internal/op"
)

func TestApprovalAccepted(t *testing.T) {
	t.Parallel()
	v, payload := testVerifier(t), encode(t, testPayload)
	for _, c := range []struct{ key, principal, keyType string }{
		{"alice", "alice@example.com", "ssh-ed25519"},
		{"ecdsa-p256", "erin@example.com", "ecdsa-sha2-nistp256"},
		{"rsa-3072", "rolf@example.com", "ssh-rsa"},
	} {
		for _, hash := range []sshsig.HashAlgorithm{sshsig.HashSHA512, sshsig.HashSHA256} {
			key := testKey(t, c.key)
			armored := mint(t, key, "operational@gated", hash, payload).armored()
			got, err := v.Approval(Envelope{Payload: payload, Signatures: []string{armored}}, issued)
			require.NoError(t, err, "%s %s", c.key, hash)
			require.Equal(t, testPayload, got.Payload)
			require.Equal(t, payload, got.Bytes)
			require.Equal(t, []Signer{{Principal: c.principal, Role: op.Operational,
				Key: ssh.FingerprintSHA256(key.PublicKey()), KeyType: c.keyType, Armor: armored}}, got.Signers)
		}
	}
}

func TestRSASHA256Accepted(t *testing.T) {
	t.Parallel()
	payload, key := encode(t, testPayload), testKey(t, "rsa-3072")
	f := mint(t, key, "operational@gated", sshsig.HashSHA512, payload).signedAs(t, key, ssh.KeyAlgoRSASHA256, payload)
	_, err := testVerifier(t).Approval(Envelope{Payload: payload, Signatures: []string{f.armored()}}, issued)
	require.NoError(t, err)
}

func TestEverySignatureHasToPass(t *testing.T) {
	t.Parallel()
	v, payload := testVerifier(t), encode(t, testPayload)
	alice, rolf, mallory := testKey(t, "alice"), testKey(t, "rsa-3072"), testKey(t, "bob")

	got, err := v.Approval(envelope(t, payload, alice, rolf, alice), issued)
	require.NoError(t, err)
	require.Len(t, got.Signers, 3, "who counts twice is for the gate to say")

	_, err = v.Approval(envelope(t, payload, alice, mallory), issued)
	refused(t, err, op.UnknownSigner, op.StageAllowList)
	require.Contains(t, err.Error(), "signature 2: ")

	e := envelope(t, payload, alice, rolf)
	e.Signatures[1] = envelope(t, []byte("other bytes"), rolf).Signatures[0]
	_, err = v.Approval(e, issued)
	refused(t, err, op.BadSignature, op.StageCrypto)
}

func TestRejectionAndApprovalAreNotEachOther(t *testing.T) { // S19
	t.Parallel()
	v, alice := testVerifier(t), testKey(t, "alice")
	approval, rejection := envelope(t, encode(t, testPayload), alice), envelope(t, encode(t, testRejection), alice)

	got, err := v.Rejection(rejection, issued)
	require.NoError(t, err)
	require.Equal(t, testRejection, got.Rejection)
	require.Equal(t, rejection.Payload, got.Bytes)
	require.Len(t, got.Signers, 1)

	_, err = v.Approval(rejection, issued)
	refused(t, err, op.Malformed, op.StageDecode)
	_, err = v.Rejection(approval, issued)
	refused(t, err, op.Malformed, op.StageDecode)
}

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
	weak, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	weakKey, err := ssh.NewSignerFromKey(weak)
	require.NoError(t, err)
	sk := slices.Concat(sshString("sk-ssh-ed25519@openssh.com"), sshString(strings.Repeat("k", 32)), sshString("ssh:"))

	for _, c := range []struct {
		name  string
		sig   forge
		code  op.Code
		stage op.Stage
	}{
		{"S03 key not listed", mint(t, testKey(t, "bob"), "operational@gated", sshsig.HashSHA512, payload), op.UnknownSigner, op.StageAllowList},
		{"S04 other bytes", mint(t, alice, "operational@gated", sshsig.HashSHA512, []byte("other")), op.BadSignature, op.StageCrypto},
		{"S05 git", inNamespace("git"), op.NamespaceMismatch, op.StageNamespace},
		{"S05 file", inNamespace("file"), op.NamespaceMismatch, op.StageNamespace},
		{"S05 empty", inNamespace(""), op.NamespaceMismatch, op.StageNamespace},
		{"S05 space", inNamespace("operational@gated "), op.NamespaceMismatch, op.StageNamespace},
		{"S05 case", inNamespace("Operational@gated"), op.NamespaceMismatch, op.StageNamespace},
		{"S05 NUL", inNamespace("operational@gated\x00"), op.NamespaceMismatch, op.StageNamespace},
		{"S05 only the suffix", inNamespace("@gated"), op.NamespaceMismatch, op.StageNamespace},
		{"S06 role the key is not listed for", inNamespace("recovery@gated"), op.UnknownSigner, op.StageAllowList},
		{"S06 namespace relabelled", with(func(f *forge) { f.namespace = "coordination@gated" }), op.UnknownSigner, op.StageAllowList},
		{"S09 RSA 2048", mint(t, weakKey, "operational@gated", sshsig.HashSHA512, payload), op.WeakKey, op.StageDecode},
		{"S09 SHA-1", mint(t, rolf, "operational@gated", sshsig.HashSHA512, payload).signedAs(t, rolf, ssh.KeyAlgoRSA, payload), op.WeakKey, op.StageDecode},
		{"S09 DSA", with(func(f *forge) { f.key = sshString("ssh-dss") }), op.WeakKey, op.StageDecode},
		{"S09 DSA certificate", with(func(f *forge) { f.key = sshString(dsaCert) }), op.WeakKey, op.StageDecode},
		{"S12 inner trailing", with(func(f *forge) { f.innerTrailing = "x" }), op.Malformed, op.StageDecode},
		{"S12 inner trailing string", with(func(f *forge) { f.innerTrailing = "\x00\x00\x00\x00" }), op.Malformed, op.StageDecode},
		{"S12 outer trailing", with(func(f *forge) { f.outerTrailing = "x" }), op.Malformed, op.StageDecode},
		{"S12 hash differs", with(func(f *forge) { f.hash = "sha256" }), op.BadSignature, op.StageCrypto},
		{"S12 hash unknown", with(func(f *forge) { f.hash = "sha1" }), op.Malformed, op.StageDecode},
		{"S12 hash empty", with(func(f *forge) { f.hash = "" }), op.Malformed, op.StageDecode},
		{"S12 hash in capitals", with(func(f *forge) { f.hash = "SHA512" }), op.Malformed, op.StageDecode},
		{"S12 reserved, unsigned", with(func(f *forge) { f.reserved = "r" }), op.Malformed, op.StageDecode},
		{"S12 reserved, signed", resigned(func(f *forge) { f.reserved = "r" }), op.Malformed, op.StageDecode},
		{"magic", with(func(f *forge) { f.magic = "SSHSIg" }), op.Malformed, op.StageDecode},
		{"version 0", with(func(f *forge) { f.version = 0 }), op.Malformed, op.StageDecode},
		{"version 2", with(func(f *forge) { f.version = 2 }), op.Malformed, op.StageDecode},
		{"key trailing", with(func(f *forge) { f.key = slices.Concat(f.key, []byte{0}) }), op.Malformed, op.StageDecode},
		{"key empty", with(func(f *forge) { f.key = nil }), op.Malformed, op.StageDecode},
		{"key of another", with(func(f *forge) { f.key = testKey(t, "bob").PublicKey().Marshal() }), op.UnknownSigner, op.StageAllowList},
		{"key of another type", with(func(f *forge) { f.key = rolf.PublicKey().Marshal() }), op.Malformed, op.StageDecode},
		{"key of nobody's type", with(func(f *forge) { f.key = sshString("ssh-xmss@openssh.com") }), op.UnknownSigner, op.StageAllowList},
		{"security key", with(func(f *forge) { f.key = sk }), op.UnknownSigner, op.StageAllowList},
		{"certificate", with(func(f *forge) { f.key = sshString(ssh.CertAlgoED25519v01) }), op.UnknownSigner, op.StageAllowList},
		{"certificate in a foreign namespace", resigned(func(f *forge) { f.key, f.namespace = sshString(ssh.CertAlgoED25519v01), "git" }), op.NamespaceMismatch, op.StageNamespace},
		{"inner format of another type", with(func(f *forge) { f.format = ssh.KeyAlgoRSASHA512 }), op.Malformed, op.StageDecode},
		{"inner value short", with(func(f *forge) { f.value = f.value[:63] }), op.Malformed, op.StageDecode},
		{"inner value empty", with(func(f *forge) { f.value = nil }), op.Malformed, op.StageDecode},
	} {
		_, err := v.Approval(Envelope{Payload: payload, Signatures: []string{c.sig.armored()}}, issued)
		t.Run(c.name, func(t *testing.T) { refused(t, err, c.code, c.stage) })
	}
}

func TestRoleIsTheNamespace(t *testing.T) { // S06, and S07 as far as it is ours
	t.Parallel()
	payload, key := encode(t, testPayload), testKey(t, "bob")
	v := testVerifier(t)
	v.Trust = loadTrust(t, trustLine("bob", `namespaces="recovery@gated,git,coordination@gated"`, key.PublicKey()))
	for _, role := range op.Roles {
		sig := mint(t, key, role.Namespace(), sshsig.HashSHA512, payload).armored()
		got, err := v.Approval(Envelope{Payload: payload, Signatures: []string{sig}}, issued)
		if role == op.Operational {
			refused(t, err, op.UnknownSigner, op.StageAllowList)
			require.Contains(t, err.Error(), "only for coordination@gated, recovery@gated")
			continue
		}
		require.NoError(t, err)
		require.Equal(t, role, got.Signers[0].Role, "whether the role may do this is the gate's to say")
	}
}

func TestTimeAndTarget(t *testing.T) { // T01, and the target stage
	t.Parallel()
	v, alice := testVerifier(t), testKey(t, "alice")
	hour := func(*op.Payload) {}
	for _, c := range []struct {
		name   string
		change func(*op.Payload)
		now    time.Time
		code   op.Code
	}{
		{"at issue", hour, issued, ""},
		{"skew before issue", hour, issued.Add(-time.Minute), ""},
		{"more than the skew before", hour, issued.Add(-time.Minute - time.Nanosecond), op.NotYetValid},
		{"skew after expiry", hour, issued.Add(time.Hour + time.Minute), ""},
		{"more than the skew after", hour, issued.Add(time.Hour + time.Minute + time.Nanosecond), op.Expired},
		{"years before", hour, issued.AddDate(-70, 0, 0), op.NotYetValid},
		{"years after", hour, issued.AddDate(70, 0, 0), op.Expired},
		{"longest validity", func(p *op.Payload) { p.ExpiresAt = issued.Add(24 * time.Hour) }, issued, ""},
		{"longer validity", func(p *op.Payload) { p.ExpiresAt = issued.Add(24*time.Hour + time.Second) }, issued, op.ValidityTooLong},
		{"centuries", func(p *op.Payload) { p.ExpiresAt = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC) }, issued, op.ValidityTooLong},
		{"other host", func(p *op.Payload) { p.Host = "pve2" }, issued, op.TargetMismatch},
		{"host in other case", func(p *op.Payload) { p.Host = "PVE1" }, issued, op.TargetMismatch},
		{"other gate", func(p *op.Payload) { p.Gate = "10112233445566778899aabbccddeeff" }, issued, op.TargetMismatch},
		{"other gate and expired", func(p *op.Payload) { p.Gate = "10112233445566778899aabbccddeeff" }, issued.AddDate(1, 0, 0), op.TargetMismatch},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := testPayload
			c.change(&p)
			_, err := v.Approval(envelope(t, encode(t, p), alice), c.now)
			r := testRejection
			r.Gate, r.Host, r.ExpiresAt = p.Gate, p.Host, p.ExpiresAt
			_, rejErr := v.Rejection(envelope(t, encode(t, r), alice), c.now)
			switch c.code {
			case "":
				require.NoError(t, errors.Join(err, rejErr))
			case op.TargetMismatch:
				refused(t, err, c.code, op.StageTarget)
				refused(t, rejErr, c.code, op.StageTarget)
			default:
				refused(t, err, c.code, op.StageTime)
				refused(t, rejErr, c.code, op.StageTime)
			}
		})
	}
}

func TestKeyValidity(t *testing.T) { // S13
	t.Parallel()
	payload, bob := encode(t, testPayload), testKey(t, "bob")
	v := testVerifier(t)
	v.Skew = 24 * time.Hour // so that only the key's own limits can refuse
	check := func(options string, now time.Time) error {
		v.Trust = loadTrust(t, trustLine("bob", `namespaces="operational@gated",`+options, bob.PublicKey()))
		_, err := v.Approval(envelope(t, payload, bob), now)
		return err
	}
	const options = `valid-after="20310504120000Z",valid-before="203105041230Z"`
	from, to := issued, issued.Add(30*time.Minute)
	require.NoError(t, check(options, from), "exactly on valid-after")
	require.NoError(t, check(options, to), "exactly on valid-before")
	require.NoError(t, check(options, to.Add(999*time.Millisecond)), "seconds are whole, as in ssh-keygen")
	refused(t, check(options, from.Add(-time.Nanosecond)), op.SignerExpired, op.StageAllowList)
	refused(t, check(options, from.Add(-time.Second)), op.SignerExpired, op.StageAllowList)
	refused(t, check(options, to.Add(time.Second)), op.SignerExpired, op.StageAllowList)
	require.NoError(t, check(`valid-before="20310505Z"`, from))
	refused(t, check(`valid-before="20310504Z"`, from), op.SignerExpired, op.StageAllowList)
	refused(t, check(`valid-after="20310505Z"`, from), op.SignerExpired, op.StageAllowList)
}

func TestPayloadRefusals(t *testing.T) { // B10, B11, B13, B16, T10: validly signed, and still not a payload
	t.Parallel()
	v, alice := testVerifier(t), testKey(t, "alice")
	good := string(encode(t, testPayload))
	for _, c := range []struct{ name, old, new string }{
		{"B10 duplicate member", `"host":"pve1",`, `"host":"pve1","host":"pve1",`},
		{"B10 case variant", `"target":`, `"Target":`},
		{"B10 case variant beside", `"target":`, `"Target":"guest/other","target":`},
		{"B10 unknown member", `"type":`, `"tz":"","type":`},
		{"B10 trailing newline", `"gated/signed-op/v1"}`, `"gated/signed-op/v1"}` + "\n"},
		{"B10 trailing value", `"gated/signed-op/v1"}`, `"gated/signed-op/v1"}{}`},
		{"B10 space", `{"expires_at"`, `{ "expires_at"`},
		{"B10 escaped letter", `pve1`, `\u0070ve1`},
		{"B10 invalid UTF-8", `the upgrade`, "the \xff upgrade"},
		{"B10 lone surrogate", `the upgrade`, `the \ud800 upgrade`},
		{"B10 exponent", `"before-upgrade"`, `1e2`},
		{"B10 minus zero", `"before-upgrade"`, `-0`},
		{"B10 2^53", `"before-upgrade"`, `9007199254740992`},
		{"B10 fraction", `"before-upgrade"`, `1.5`},
		{"B10 null", `"before-upgrade"`, `null`},
		{"B10 null member", `"the upgrade went wrong"`, `null`},
		{"B11 zero width", `the upgrade`, "the\u200bupgrade"},
		{"B11 bidirectional", `the upgrade`, "the \u202eupgrade"},
		{"B11 ANSI", `the upgrade`, `the \u001b[31mupgrade`},
		{"B11 newline", `the upgrade`, `the\nupgrade`},
		{"B11 line separator", `the upgrade`, "the\u2028upgrade"},
		{"B13 homoglyph", `guest/web-1`, "guest/w\u0435b-1"},
		{"B15 path", `guest/web-1`, `guest/..`},
		{"B16 wildcard", `guest/web-1`, `guest/web-*`},
		{"T10 15 bytes", `AAECAwQFBgcICQoLDA0ODw`, `AAECAwQFBgcICQoLDA0O`},
		{"T10 33 bytes", `AAECAwQFBgcICQoLDA0ODw`, strings.Repeat("AAEC", 11)},
		{"T10 padded", `AAECAwQFBgcICQoLDA0ODw`, `AAECAwQFBgcICQoLDA0ODw==`},
		{"T10 standard alphabet", `AAECAwQFBgcICQoLDA0ODw`, `AAECAwQFBgcICQoLDA0+/w`},
		{"T10 stray bits", `AAECAwQFBgcICQoLDA0ODw`, `AAECAwQFBgcICQoLDA0ODx`},
		{"a rejection's type", `gated/signed-op/v1`, `gated/rejection/v1`},
	} {
		t.Run(c.name, func(t *testing.T) {
			bad := strings.Replace(good, c.old, c.new, 1)
			require.NotEqual(t, good, bad)
			_, err := v.Approval(envelope(t, []byte(bad), alice), issued)
			refused(t, err, op.Malformed, op.StageDecode)
			_, err = VerifyFile([]byte(bad), envelope(t, []byte(bad), alice).Signatures[0], v.Trust, issued)
			refused(t, err, op.Malformed, op.StageDecode)
		})
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	v, payload, alice := testVerifier(t), encode(t, testPayload), testKey(t, "alice")
	one := envelope(t, payload, alice).Signatures[0]
	times := func(n int) Envelope {
		e := Envelope{Payload: payload}
		for range n {
			e.Signatures = append(e.Signatures, one)
		}
		return e
	}
	_, err := v.Approval(times(0), issued)
	refused(t, err, op.Malformed, op.StageDecode)
	for _, n := range []int{1, 15, 16} {
		_, err := v.Approval(times(n), issued)
		require.NoError(t, err, n)
	}
	for _, n := range []int{17, 10_000} {
		_, err := v.Approval(times(n), issued)
		refused(t, err, op.Oversized, op.StageDecode)
	}

	e := times(1)
	for _, n := range []int{MaxArmor + 1, 16 << 20} {
		e.Signatures[0] = one + strings.Repeat("A", n-len(one))
		_, err = v.Approval(e, issued)
		refused(t, err, op.Oversized, op.StageDecode)
	}
	for _, n := range []int{MaxArmor - 1, MaxArmor} {
		e.Signatures[0] = one + strings.Repeat("A", n-len(one))
		_, err = v.Approval(e, issued)
		refused(t, err, op.Malformed, op.StageDecode)
	}

	big := Envelope{Payload: make([]byte, op.MaxPayload+1), Signatures: []string{one}}
	_, err = v.Approval(big, issued)
	refused(t, err, op.Oversized, op.StageDecode)
	deep := []byte(strings.Repeat(`{"a":`, 10_000) + "1" + strings.Repeat("}", 10_000))
	_, err = v.Approval(Envelope{Payload: deep, Signatures: []string{one}}, issued)
	refused(t, err, op.Malformed, op.StageDecode)
}

func TestZeroVerifierRefuses(t *testing.T) {
	t.Parallel()
	e := envelope(t, encode(t, testPayload), testKey(t, "alice"))
	_, err := Verifier{}.Approval(e, issued)
	refused(t, err, op.UnknownSigner, op.StageAllowList)
	v := testVerifier(t)
	v.MaxValidity = 0
	_, err = v.Approval(e, issued)
	refused(t, err, op.ValidityTooLong, op.StageTime)
	v = testVerifier(t)
	v.Gate, v.Host = "", ""
	_, err = v.Approval(e, issued)
	refused(t, err, op.TargetMismatch, op.StageTarget)
}

// TestInnerForms changes the inner signature in ways that mathematics would
// overlook or only then refuse: each is refused by its form.
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
		t.Run(name, func(t *testing.T) { refused(t, err, op.Malformed, op.StageDecode) })
	}
	for name, f := range map[string]forge{
		"rsa, the other hash":    format(rolf, ssh.KeyAlgoRSASHA256),
		"ecdsa, r and s swapped": value(erin, sshString(s), sshString(r)),
	} {
		_, err := v.Approval(Envelope{Payload: payload, Signatures: []string{f.armored()}}, issued)
		t.Run(name, func(t *testing.T) { refused(t, err, op.BadSignature, op.StageCrypto) })
	}
	_, err := v.Approval(Envelope{Payload: payload, Signatures: []string{keyed(erin, strings.Repeat("k", 64)).armored()}}, issued)
	refused(t, err, op.UnknownSigner, op.StageAllowList)
}

// TestUselessListedKey: a key that can make no signature may be listed, and then
// is no more than useless.
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
		refused(t, err, op.BadSignature, op.StageCrypto)
	}
}

func BenchmarkApproval(b *testing.B) {
	v, payload := testVerifier(b), encode(b, testPayload)
	for _, name := range mutatedKeys {
		b.Run(name, func(b *testing.B) {
			e := envelope(b, payload, testKey(b, name))
			for b.Loop() {
				_, err := v.Approval(e, issued)
				require.NoError(b, err)
			}
		})
	}
}

func TestVerifyFile(t *testing.T) {
	t.Parallel()
	v, alice := testVerifier(t), testKey(t, "alice")
	later := issued.AddDate(1, 0, 0) // the payload's own time is not asked for
	for _, p := range []interface{ Encode() ([]byte, error) }{testPayload, testRejection} {
		e := envelope(t, encode(t, p), alice)
		got, err := VerifyFile(e.Payload, e.Signatures[0], v.Trust, later)
		require.NoError(t, err)
		require.Equal(t, "alice@example.com", got.Principal)
		require.Equal(t, op.Operational, got.Role)
		require.Equal(t, ssh.FingerprintSHA256(alice.PublicKey()), got.Key)

		_, err = VerifyFile(append(e.Payload, '\n'), e.Signatures[0], v.Trust, later)
		refused(t, err, op.Malformed, op.StageDecode)
		_, err = VerifyFile(e.Payload, e.Signatures[0], nil, later)
		refused(t, err, op.UnknownSigner, op.StageAllowList)
	}

	// A label may be called type: the kind of a payload is its own last member.
	p := testPayload
	p.Op, p.Params = "guest.set-config", op.Params{"labels": map[string]any{"type": op.TypeRejection}}
	e := envelope(t, encode(t, p), alice)
	_, err := VerifyFile(e.Payload, e.Signatures[0], v.Trust, later)
	require.NoError(t, err)
}
