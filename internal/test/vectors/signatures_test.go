package vectors

import (
	"bytes"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/test/mint"
)

const operational = `namespaces="operational@gated"`

// envelopes collects cases of envelopes.
type envelopes struct {
	t   *testing.T
	out []Vector
}

// usual is a signed approval that comes to a gate with this list of signers, a minute after it was issued.
func usual(lines string, payload []byte, signatures ...mint.Signature) envelopeCase {
	c := envelopeCase{As: "approval", Now: noon.Add(time.Minute), Gate: gate{ID: gateID, Host: host, AllowedSigners: lines, MaxValidity: 24 * 3600}}
	c.Envelope = api.EnvelopeOf(payload)
	for _, s := range signatures {
		c.Envelope.Signatures = append(c.Envelope.Signatures, s.Armored())
	}
	return c
}

func (e *envelopes) accept(n string, c envelopeCase, who ...signer) {
	c.Name, c.Outcome = Name(n), Accepted(e.t, said{Signers: who})
	e.out = append(e.out, &c)
}

func (e *envelopes) refuse(n string, c envelopeCase, stage refusal.Stage, code refusal.Code, why string) {
	c.Name, c.Outcome = Name(n), Refuses(stage, code, why)
	e.out = append(e.out, &c)
}

func is(k mint.Key, role op.Role) signer {
	return signer{Principal: k.Name, Role: role, Key: k.Fingerprint()}
}

// touched is a security key's signer.
func touched(k mint.Key, flags byte, counter uint32) signer {
	s := is(k, op.Operational)
	s.Flags, s.Counter = &flags, &counter
	return s
}

// signatures makes the cases of signature.json.
func signatures(t *testing.T) []Vector {
	e := &envelopes{t: t}
	e.eachKey()
	e.armors()
	e.forms()
	e.listing()
	e.mathematics()
	e.gateAndTime()
	return e.out
}

func (e *envelopes) eachKey() {
	t, payload := e.t, encoded(e.t, approval)
	rsa := mint.RSA(t, "rsa", 3072)
	for _, k := range []mint.Key{mint.Ed25519(t, "alice"), mint.ECDSA(t, "p256", 256), mint.ECDSA(t, "p384", 384), mint.ECDSA(t, "p521", 521), rsa} {
		e.accept(k.Type(), usual(k.Line(k.Name, operational), payload, mint.Sign(t, k, op.Operational.Namespace(), payload)), is(k, op.Operational))
	}
	line, unsigned := rsa.Line("rsa", operational), mint.Unsigned(rsa.Blob(), op.Operational.Namespace())
	e.accept("rsa-sha2-256", usual(line, payload, unsigned.As(t, rsa, "rsa-sha2-256", payload)), is(rsa, op.Operational))
	e.refuse("RSA with SHA-1", usual(line, payload, unsigned.As(t, rsa, "ssh-rsa", payload)), refusal.StageDecode, refusal.WeakKey, "SHA-1 is weak")
	short := unsigned.By(t, rsa, payload)
	short.Value = short.Value[1:]
	e.refuse("an RSA signature shorter than its modulus", usual(line, payload, short), refusal.StageDecode, refusal.Malformed, "it has as many bytes as the modulus")
	weak := mint.RSA(t, "weak", 2048)
	e.refuse("RSA with 2048 bits", usual(line, payload, mint.Sign(t, weak, op.Operational.Namespace(), payload)), refusal.StageDecode, refusal.WeakKey, "RSA has 3,072 bits or more")
	dsa := mint.DSA(t, "dsa")
	e.refuse("DSA", usual(line, payload, mint.Sign(t, dsa, op.Operational.Namespace(), payload)), refusal.StageDecode, refusal.WeakKey, "DSA is weak")
	for _, k := range []mint.Key{mint.SKEd25519(t, "sk-ed25519", mint.Touched), mint.SKECDSA(t, "sk-ecdsa", mint.Touched)} {
		e.accept(k.Type(), usual(k.Line(k.Name, operational), payload, mint.Sign(t, k, op.Operational.Namespace(), payload)), touched(k, mint.UserPresent, 7))
	}
	idle := mint.SKEd25519(t, "sk-ed25519", mint.Authenticator{Application: mint.Application, Flags: mint.UserVerified, Counter: 8})
	signed := mint.Sign(t, idle, op.Operational.Namespace(), payload)
	e.refuse("a security key that nobody touched", usual(idle.Line("sk-ed25519", operational), payload, signed), refusal.StageCrypto, refusal.TouchRequired, "flag 0x01 is not set")
	signed.Rest[0] |= mint.UserPresent
	e.refuse("a security key's flag that was not signed", usual(idle.Line("sk-ed25519", operational), payload, signed), refusal.StageCrypto, refusal.BadSignature, "the flags are signed")
	signed.Rest = nil
	e.refuse("a security key's signature without flags", usual(idle.Line("sk-ed25519", operational), payload, signed), refusal.StageDecode, refusal.Malformed, "flags and counter are missing")
}

func (e *envelopes) armors() {
	payload, alice := encoded(e.t, approval), mint.Ed25519(e.t, "alice")
	line, s := alice.Line("alice", operational), mint.Sign(e.t, alice, op.Operational.Namespace(), payload)
	text := s.Armored()
	with := func(armor string) envelopeCase {
		c := usual(line, payload)
		c.Envelope.Signatures = []string{armor}
		return c
	}
	e.accept("lines of 76 characters", with(mint.Armor(s.Blob(), 76)), is(alice, op.Operational))
	e.accept("lines of one character", with(mint.Armor(s.Blob(), 1)), is(alice, op.Operational))
	e.accept("no line end behind the last line", with(strings.TrimSuffix(text, "\n")), is(alice, op.Operational))
	for _, c := range [][3]string{
		{"lines of 77 characters", mint.Armor(s.Blob(), 77), "a line has at most 76 characters"},
		{"CRLF", strings.ReplaceAll(text, "\n", "\r\n"), "lines end with LF"},
		{"text behind the end", text + "more\n", "nothing follows the end line"},
		{"a blank line behind the end", text + "\n", "one line end at most follows the end line"},
		{"a signature twice in one armor", text + text, "nothing follows the end line"},
		{"text before the beginning", "more\n" + text, "it begins with the begin line"},
		{"a blank line inside", strings.Replace(text, "SIGNATURE-----\n", "SIGNATURE-----\n\n", 1), "no line is blank"},
		{"a header", strings.Replace(text, "SIGNATURE-----\n", "SIGNATURE-----\nComment: x\n\n", 1), "there are no headers"},
		{"a short line in the middle", strings.Replace(text, "SIGNATURE-----\nU1NI", "SIGNATURE-----\nU1NI\n", 1), "all lines but the last have one length"},
		{"another name", strings.ReplaceAll(text, "SSH SIGNATURE", "PGP SIGNATURE"), "it is an SSH signature"},
		{"no armor", b64(s.Blob()), "it has its begin line"},
	} {
		e.refuse(c[0], with(c[1]), refusal.StageDecode, refusal.Malformed, c[2])
	}
	e.refuse("an armor above 16 KiB", with(mint.Armor(make([]byte, 16<<10), 70)), refusal.StageDecode, refusal.Oversized, "an armor has at most 16 KiB")
	many := usual(line, payload, slices.Repeat([]mint.Signature{s}, 17)...)
	e.refuse("17 signatures", many, refusal.StageDecode, refusal.Oversized, "an envelope has 1 to 16 signatures")
	e.refuse("no signature", usual(line, payload), refusal.StageDecode, refusal.Malformed, "an envelope has 1 to 16 signatures")
}

func (e *envelopes) forms() {
	t, payload, alice, p256 := e.t, encoded(e.t, approval), mint.Ed25519(e.t, "alice"), mint.ECDSA(e.t, "p256", 256)
	lines := alice.Line("alice", operational) + p256.Line("p256", operational)
	good := mint.Unsigned(alice.Blob(), op.Operational.Namespace())
	form := func(n, why string, s mint.Signature) {
		e.refuse(n, usual(lines, payload, s), refusal.StageDecode, refusal.Malformed, why)
	}
	of := func(change func(*mint.Signature), k mint.Key) mint.Signature {
		s := mint.Unsigned(k.Blob(), op.Operational.Namespace())
		change(&s)
		return s.By(t, k, payload)
	}
	after := func(change func(*mint.Signature), k mint.Key) mint.Signature {
		s := mint.Sign(t, k, op.Operational.Namespace(), payload)
		change(&s)
		return s
	}
	short := good
	short.Hash = mint.SHA256
	e.accept("the hash sha256", usual(lines, payload, short.By(t, alice, payload)), is(alice, op.Operational))
	form("another magic", "it begins with SSHSIG", after(func(s *mint.Signature) { s.Magic = "SSHSIH" }, alice))
	form("version 0", "the version is 1", after(func(s *mint.Signature) { s.Version = 0 }, alice))
	form("version 2", "the version is 1", after(func(s *mint.Signature) { s.Version = 2 }, alice))
	form("a reserved field", "the reserved field is empty", of(func(s *mint.Signature) { s.Reserved = "x" }, alice))
	form("the hash sha384", "the hash is sha512 or sha256", of(func(s *mint.Signature) { s.Hash = "sha384" }, alice))
	form("bytes behind the blob", "nothing follows the blob's fields", after(func(s *mint.Signature) { s.Trailing = []byte{0} }, alice))
	form("bytes behind the inner signature", "nothing follows its fields", after(func(s *mint.Signature) { s.Rest = []byte{0} }, alice))
	form("a format of another key", "the format is that of the key's type", after(func(s *mint.Signature) { s.Format = "ssh-rsa-x" }, alice))
	form("63 bytes of Ed25519", "an Ed25519 signature has 64 bytes", after(func(s *mint.Signature) { s.Value = s.Value[1:] }, alice))
	form("an mpint that is not the shortest", "mpints are in their shortest form", after(func(s *mint.Signature) {
		n := int(s.Value[3])
		s.Value = slices.Concat(mint.String(append([]byte{0, 0}, s.Value[4:4+n]...)), s.Value[4+n:])
	}, p256))
	form("a negative mpint", "r and s are positive", after(func(s *mint.Signature) { s.Value = mint.Strings([]byte{0x80}, []byte{1}) }, p256))
	form("an mpint of zero", "r and s are positive", after(func(s *mint.Signature) { s.Value = mint.Strings(mint.Mpint(new(big.Int))[4:], []byte{1}) }, p256))
	form("a key of 31 bytes", "an Ed25519 key has 32 bytes", after(func(s *mint.Signature) { s.Key = mint.Strings([]byte("ssh-ed25519"), alice.Blob()[20:]) }, alice))
	form("bytes behind the key", "a key is in its one canonical encoding", after(func(s *mint.Signature) { s.Key = append(slices.Clone(s.Key), 0) }, alice))
	form("a compressed point", "a key is in its one canonical encoding", after(func(s *mint.Signature) {
		point := p256.Blob()[len(p256.Blob())-65:]
		s.Key = mint.Strings([]byte(p256.Type()), []byte("nistp256"), append([]byte{2 + point[64]&1}, point[1:33]...))
	}, p256))
	form("a point in the hybrid form", "a key is in its one canonical encoding", after(func(s *mint.Signature) {
		s.Key = slices.Clone(s.Key)
		s.Key[len(s.Key)-65] = 6 | s.Key[len(s.Key)-1]&1
	}, p256))
	form("a point that is not on the curve", "a key is in its one canonical encoding", after(func(s *mint.Signature) {
		s.Key = slices.Clone(s.Key)
		s.Key[len(s.Key)-1] ^= 1
	}, p256))
	rsa := mint.RSA(t, "rsa", 3072)
	modulus := rsa.Blob()[len(rsa.Blob())-385:]
	form("an RSA key with an even exponent", "an exponent is odd", after(func(s *mint.Signature) { s.Key = mint.Strings([]byte("ssh-rsa"), []byte{1, 0, 0}, modulus) }, rsa))
	form("an RSA key with a long exponent", "an exponent has at most 24 bits", after(func(s *mint.Signature) { s.Key = mint.Strings([]byte("ssh-rsa"), []byte{1, 0, 0, 1}, modulus) }, rsa))
	form("a security key of another application", "the application begins with ssh:", mint.Sign(t, mint.SKEd25519(t, "sk", mint.Authenticator{Application: "https://example.com", Flags: 1}),
		op.Operational.Namespace(), payload))
	form("a curve of another type", "the curve is the type's", after(func(s *mint.Signature) {
		s.Key = bytes.Replace(s.Key, mint.String("nistp256"), mint.String("nistp384"), 1)
	}, p256))
	untouched := string(payload) + "\n"
	form("a payload with a line end", "nothing stands behind the payload's object", mint.Sign(t, alice, op.Operational.Namespace(), []byte(untouched)))
	e.out[len(e.out)-1].(*envelopeCase).Envelope.Payload = b64([]byte(untouched))
}

func (e *envelopes) listing() {
	t, payload, alice, bob := e.t, encoded(e.t, approval), mint.Ed25519(e.t, "alice"), mint.Ed25519(e.t, "bob")
	line, s := alice.Line("alice", operational), mint.Sign(t, alice, op.Operational.Namespace(), payload)
	in := func(namespace string) envelopeCase {
		return usual(alice.Line("alice", `namespaces="operational@gated,manager@gated,recovery@gated,operational@batch.gated"`), payload, mint.Sign(t, alice, namespace, payload))
	}
	e.accept("the role recovery", in("recovery@gated"), is(alice, op.Recovery))
	own := in("manager@gated")
	own.Gate.Roles = []op.Role{"manager"}
	e.accept("a role of this gate", own, is(alice, "manager"))
	for n, namespace := range map[string]string{"a role that the gate does not have": "manager@gated", "the namespace file": "file", "no namespace": "",
		"a role in capitals": "Operational@gated", "a batch's namespace without a batch": "operational@batch.gated", "the head's namespace": "head@log.gated"} {
		e.refuse(n, in(namespace), refusal.StageNamespace, refusal.NamespaceMismatch, "the namespace is none of this gate's roles")
	}
	slices.SortFunc(e.out[len(e.out)-6:], func(a, b Vector) int { return strings.Compare(a.Named(), b.Named()) })
	e.accept("two people", usual(line+bob.Line("bob", operational), payload, s, mint.Sign(t, bob, op.Operational.Namespace(), payload)), is(alice, op.Operational), is(bob, op.Operational))
	first := alice.Line("old", `namespaces="operational@gated",valid-before="20260301Z"`) + alice.Line("git", `namespaces="git"`) + alice.Line("new", operational) + alice.Line("later", operational)
	now := is(alice, op.Operational)
	now.Principal = "new"
	e.accept("the first line that holds now names the person", usual(first, payload, s), now)
	for n, limits := range map[string]string{"at valid-after": `valid-after="20260301120100Z"`, "at valid-before": `valid-before="202603011201Z"`} {
		e.accept(n, usual(alice.Line("alice", operational+","+limits), payload, s), is(alice, op.Operational))
	}
	slices.SortFunc(e.out[len(e.out)-2:], func(a, b Vector) int { return strings.Compare(a.Named(), b.Named()) })
	not := func(n string, code refusal.Code, why, lines string) {
		e.refuse(n, usual(lines, payload, s), refusal.StageAllowList, code, why)
	}
	not("a key that no line has", refusal.UnknownSigner, "no line has the key", bob.Line("alice", operational))
	not("a key for another role", refusal.UnknownSigner, "no line has key and namespace", alice.Line("alice", `namespaces="coordination@gated"`))
	not("a key that is an authority's alone", refusal.UnknownSigner, "an authority's line is no key line", alice.Line("alice", operational+",cert-authority"))
	not("before valid-after", refusal.SignerExpired, "its time has not come", alice.Line("alice", operational+`,valid-after="20260301120101Z"`))
	not("after valid-before", refusal.SignerExpired, "its time is over", alice.Line("alice", operational+`,valid-before="20260301120059Z"`))
	odd := mint.Signature{Magic: "SSHSIG", Version: 1, Key: mint.Strings("ssh-odd", "key"), Namespace: op.Operational.Namespace(), Hash: mint.SHA512, Format: "ssh-odd", Value: []byte("signature")}
	e.refuse("a key of another type", usual(line, payload, odd), refusal.StageAllowList, refusal.UnknownSigner, "no line lists keys of this type")
	for _, r := range [][3]string{{"a revoked key", "# lost\n" + alice.Text() + " alice\n", string(refusal.SignerRevoked)}, {"a revoked fingerprint", alice.Fingerprint() + "\n", string(refusal.SignerRevoked)},
		{"revoked keys that cannot be read", "no key\n", string(refusal.Unavailable)}} {
		c := usual(line, payload, s)
		c.Gate.Revoked = &r[1]
		e.refuse(r[0], c, refusal.StageAllowList, refusal.Code(r[2]), "the revocation file decides before any line")
	}
	none := usual(line, payload, s)
	none.Gate.Revoked = new(string)
	e.accept("an empty revocation file", none, is(alice, op.Operational))
}

func (e *envelopes) mathematics() {
	t, payload, alice, bob := e.t, encoded(e.t, approval), mint.Ed25519(e.t, "alice"), mint.Ed25519(e.t, "bob")
	line, s := alice.Line("alice", operational), mint.Sign(t, alice, op.Operational.Namespace(), payload)
	other := mint.Sign(t, alice, op.Operational.Namespace(), append(slices.Clone(payload), '\n'))
	e.refuse("a signature over other bytes", usual(line, payload, other), refusal.StageCrypto, refusal.BadSignature, "a line end is a byte more")
	moved := mint.Sign(t, alice, "coordination@gated", payload)
	moved.Namespace = op.Operational.Namespace()
	e.refuse("a namespace that was not signed", usual(line, payload, moved), refusal.StageCrypto, refusal.BadSignature, "the namespace is signed")
	e.refuse("one bad signature of two", usual(line+bob.Line("bob", operational), payload, s, mint.Sign(t, bob, op.Operational.Namespace(), []byte("x"))), refusal.StageCrypto,
		refusal.BadSignature, "one bad signature refuses the envelope")
	e.refuse("a bad signature and then a key that is not listed", usual(line, payload, other, mint.Sign(t, bob, op.Operational.Namespace(), payload)), refusal.StageAllowList,
		refusal.UnknownSigner, "each stage runs over all signatures before the next")
	p256 := mint.ECDSA(t, "p256", 256)
	wrong := mint.Sign(t, p256, op.Operational.Namespace(), payload)
	wrong.Value = slices.Clone(wrong.Value)
	wrong.Value[len(wrong.Value)-1] ^= 1
	e.refuse("one bit of an ECDSA signature", usual(p256.Line("p256", operational), payload, wrong), refusal.StageCrypto, refusal.BadSignature, "each bit counts")
}

func (e *envelopes) gateAndTime() {
	t, alice := e.t, mint.Ed25519(e.t, "alice")
	of := func(change func(p *op.Payload), now time.Time) envelopeCase {
		p := approval
		change(&p)
		c := usual(alice.Line("alice", operational), encoded(t, p), mint.Sign(t, alice, op.Operational.Namespace(), encoded(t, p)))
		c.Now = now
		return c
	}
	same := func(*op.Payload) {}
	e.refuse("another gate", of(func(p *op.Payload) { p.Gate = "ffffffffffffffffffffffffffffffff" }, noon), refusal.StageTarget, refusal.TargetMismatch, "the gate is not this one")
	e.refuse("another host", of(func(p *op.Payload) { p.Host = "pve2" }, noon), refusal.StageTarget, refusal.TargetMismatch, "the host is not this one")
	e.refuse("another host, and expired", of(func(p *op.Payload) { p.Host = "pve2" }, noon.Add(48*time.Hour)), refusal.StageTarget, refusal.TargetMismatch, "target comes before time")
	e.accept("60 seconds before it was issued", of(same, noon.Add(-time.Minute)), is(alice, op.Operational))
	e.refuse("61 seconds before it was issued", of(same, noon.Add(-61*time.Second)), refusal.StageTime, refusal.NotYetValid, "clocks may differ by 60 seconds")
	e.accept("60 seconds after its end", of(same, noon.Add(time.Hour+time.Minute)), is(alice, op.Operational))
	e.refuse("61 seconds after its end", of(same, noon.Add(time.Hour+61*time.Second)), refusal.StageTime, refusal.Expired, "clocks may differ by 60 seconds")
	e.accept("as long as max_validity", of(func(p *op.Payload) { p.ExpiresAt = noon.Add(24 * time.Hour) }, noon), is(alice, op.Operational))
	e.refuse("a second longer than max_validity", of(func(p *op.Payload) { p.ExpiresAt = noon.Add(24*time.Hour + time.Second) }, noon), refusal.StageTime, refusal.ValidityTooLong, "max_validity bounds it")
	rejection := op.Rejection{Gate: gateID, Host: host, Request: op.RequestID{Job: 12, Index: 1}, PayloadSHA256: op.SHA256(encoded(t, approval)), Nonce: "EBESExQVFhcYGRobHB0eHw",
		IssuedAt: noon, ExpiresAt: noon.Add(time.Hour), Reason: "still in use"}
	c := usual(alice.Line("alice", operational), encoded(t, rejection), mint.Sign(t, alice, op.Operational.Namespace(), encoded(t, rejection)))
	e.refuse("a rejection as an approval", c, refusal.StageDecode, refusal.Malformed, "it is read as what was asked for")
	c.As = "rejection"
	e.accept("a rejection", c, is(alice, op.Operational))
	c = of(same, noon)
	c.As = "rejection"
	e.refuse("an approval as a rejection", c, refusal.StageDecode, refusal.Malformed, "it is read as what was asked for")
}
