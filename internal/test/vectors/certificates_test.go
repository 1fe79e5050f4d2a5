package vectors

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/test/mint"
)

// certificates makes the cases of certificate.json.
func certificates(t *testing.T) []Vector {
	c := &certified{envelopes: envelopes{t: t}, ca: mint.Ed25519(t, "ca"), key: mint.Ed25519(t, "carol")}
	c.line = c.ca.Line("*@example.com,!trainee-*@example.com", "cert-authority,"+operational)
	c.kinds()
	c.names()
	c.forms()
	return c.out
}

// certified collects cases of certificates by one authority for one key.
type certified struct {
	envelopes
	ca, key mint.Key
	line    string
}

const carol = "carol@example.com"

// by is an approval that a certificate's key signed.
func (c *certified) by(cert mint.Cert, lines string) envelopeCase {
	payload := encoded(c.t, approval)
	return usual(lines, payload, mint.SignWith(c.t, cert, cert.Key, op.Operational.Namespace(), payload))
}

// cert is the usual certificate with a change.
func (c *certified) cert(change func(*mint.Cert)) mint.Cert {
	cert := mint.Certify(c.ca, c.key, carol)
	cert.Serial = 17
	change(&cert)
	return cert
}

func with(cert mint.Cert) signer {
	return signer{Principal: cert.Principals[0], Role: op.Operational, Key: cert.Key.Fingerprint(), CA: cert.CA.Fingerprint(), Serial: &cert.Serial}
}

func (c *certified) good(n string, change func(*mint.Cert)) {
	cert := c.cert(change)
	c.accept(n, c.by(cert, c.line), with(cert))
}

func (c *certified) bad(n string, stage refusal.Stage, code refusal.Code, why string, change func(*mint.Cert)) {
	c.refuse(n, c.by(c.cert(change), c.line), stage, code, why)
}

func (c *certified) kinds() {
	t := c.t
	for _, k := range []mint.Key{mint.Ed25519(t, "carol"), mint.ECDSA(t, "p256", 256), mint.RSA(t, "rsa", 3072)} {
		c.good("a certified "+k.Type(), func(cert *mint.Cert) { cert.Key = k })
	}
	verified := mint.SKEd25519(t, "sk", mint.Authenticator{Application: mint.Application, Flags: mint.UserPresent | mint.UserVerified, Counter: 9})
	touchedOnly := mint.SKEd25519(t, "sk", mint.Authenticator{Application: mint.Application, Flags: mint.UserPresent, Counter: 9})
	asks := func(k mint.Key) mint.Cert {
		return c.cert(func(cert *mint.Cert) { cert.Key, cert.Critical = k, []mint.Option{{Name: "verify-required"}} })
	}
	who, flags, counter := with(asks(verified)), mint.UserPresent|mint.UserVerified, uint32(9)
	who.Flags, who.Counter = &flags, &counter
	c.accept("verify-required, and verified", c.by(asks(verified), c.line), who)
	c.refuse("verify-required, and touched alone", c.by(asks(touchedOnly), c.line), refusal.StageCrypto, refusal.TouchRequired, "the certificate asks for a verification")
	c.refuse("verify-required of a key in a file", c.by(asks(c.key), c.line), refusal.StageCrypto, refusal.TouchRequired, "the certificate asks for a verification")
	token, rsa, lazy := mint.SKEd25519(t, "ca-token", mint.Touched), mint.RSA(t, "ca-rsa", 3072), mint.SKEd25519(t, "ca-token", mint.Authenticator{Application: mint.Application})
	under := func(ca mint.Key, algorithm string) (mint.Cert, string) {
		return c.cert(func(cert *mint.Cert) { cert.CA, cert.Algorithm = ca, algorithm }), ca.Line("*", "cert-authority,"+operational)
	}
	cert, line := under(token, "")
	c.accept("an authority on a security key", c.by(cert, line), with(cert))
	cert, line = under(lazy, "")
	c.refuse("an authority's security key that nobody touched", c.by(cert, line), refusal.StageCrypto, refusal.TouchRequired, "the authority's flag 0x01 is not set")
	cert, line = under(rsa, "rsa-sha2-512")
	c.accept("an RSA authority", c.by(cert, line), with(cert))
	cert, line = under(rsa, "ssh-rsa")
	c.refuse("an RSA authority with SHA-1", c.by(cert, line), refusal.StageDecode, refusal.WeakKey, "SHA-1 is weak")
	weak := mint.RSA(t, "weak", 2048)
	cert, _ = under(weak, "rsa-sha2-512")
	c.refuse("an RSA authority of 2048 bits", c.by(cert, c.line), refusal.StageDecode, refusal.WeakKey, "no line could list the authority")
	c.bad("a certified RSA key of 2048 bits", refusal.StageDecode, refusal.WeakKey, "no line could list the key", func(cert *mint.Cert) { cert.Key = weak })
	passkey := mint.Passkey(t, "phone", mint.Console)
	c.bad("a certified passkey", refusal.StageDecode, refusal.Malformed, "a passkey has no certificate", func(cert *mint.Cert) { cert.Key = passkey })
	c.bad("an authority that is a passkey", refusal.StageDecode, refusal.Malformed, "a passkey certifies no key", func(cert *mint.Cert) { cert.CA = passkey })
	inner := mint.Certify(c.ca, c.ca, carol)
	c.bad("an authority that is a certificate", refusal.StageDecode, refusal.Malformed, "an authority is a plain key", func(cert *mint.Cert) { cert.CABlob = inner.Blob(t) })
}

func (c *certified) names() {
	list, unknown, expired := refusal.StageAllowList, refusal.UnknownSigner, refusal.SignerExpired
	c.bad("a host's certificate", list, unknown, "the certificate is for users", func(cert *mint.Cert) { cert.Kind = mint.HostCert })
	c.bad("two principals", list, unknown, "it names exactly one principal", func(cert *mint.Cert) { cert.Principals = append(cert.Principals, "dave@example.com") })
	c.bad("one principal twice", list, unknown, "it names exactly one principal", func(cert *mint.Cert) { cert.Principals = []string{carol, carol} })
	c.bad("no principal", list, unknown, "it names exactly one principal", func(cert *mint.Cert) { cert.Principals = nil })
	c.bad("a principal with a star", list, unknown, "a key line could not name it", func(cert *mint.Cert) { cert.Principals = []string{"*@example.com"} })
	c.bad("a principal with a tab", list, unknown, "a certificate's principal has no control characters", func(cert *mint.Cert) { cert.Principals = []string{"carol\t@example.com"} })
	c.bad("a principal of 256 bytes", list, unknown, "a key line could not name it", func(cert *mint.Cert) { cert.Principals = []string{strings.Repeat("c", 244) + "@example.com"} })
	c.bad("a principal that no pattern matches", list, unknown, "no pattern matches", func(cert *mint.Cert) { cert.Principals = []string{"carol@example.org"} })
	c.bad("a principal that a negated pattern matches", list, unknown, "none with ! may match", func(cert *mint.Cert) { cert.Principals = []string{"trainee-1@example.com"} })
	c.good("a principal with a blank", func(cert *mint.Cert) { cert.Principals = []string{"Carol Jones carol@example.com"} })
	c.bad("force-command", list, unknown, "verify-required is the one critical option", func(cert *mint.Cert) {
		cert.Critical = []mint.Option{{Name: "force-command", Value: "true"}}
	})
	c.bad("verify-required with a value", list, unknown, "verify-required has no value", func(cert *mint.Cert) {
		cert.Critical = []mint.Option{{Name: "verify-required", Value: "true"}}
	})
	plain := c.cert(func(*mint.Cert) {})
	c.refuse("a line of the certified key alone", c.by(plain, c.key.Line("carol", operational)), list, unknown, "a key line of the certified key does not count")
	c.refuse("a key line of the authority's key", c.by(plain, c.ca.Line("ca", operational)), list, unknown, "a key line is no authority's")
	now := noon.Add(time.Minute)
	c.good("at valid after", func(cert *mint.Cert) { cert.ValidAfter = now })
	c.bad("a second before valid after", list, expired, "its time has not come", func(cert *mint.Cert) { cert.ValidAfter = now.Add(time.Second) })
	c.good("a second before valid before", func(cert *mint.Cert) { cert.ValidBefore = now.Add(time.Second) })
	c.bad("at valid before", list, expired, "valid before is excluded", func(cert *mint.Cert) { cert.ValidBefore = now })
	c.refuse("an authority's line that is over", c.by(plain, c.ca.Line("*", "cert-authority,"+operational+`,valid-before="20260301Z"`)), list, expired, "the authority's time is over")
	for n, k := range map[string]mint.Key{"a revoked authority": c.ca, "a revoked certified key": c.key} {
		e, text := c.by(plain, c.line), k.Fingerprint()+"\n"
		e.Gate.Revoked = &text
		c.refuse(n, e, list, refusal.SignerRevoked, "authority and key have to stand")
	}
	slices.SortFunc(c.out[len(c.out)-2:], func(a, b Vector) int { return strings.Compare(a.Named(), b.Named()) })
}

func (c *certified) forms() {
	bad := func(n, why string, change func(*mint.Cert)) {
		c.bad(n, refusal.StageDecode, refusal.Malformed, why, change)
	}
	c.good("the largest serial", func(cert *mint.Cert) { cert.Serial = math.MaxUint64 })
	c.good("no extensions", func(cert *mint.Cert) { cert.Extensions = nil })
	c.good("no-touch-required is ignored", func(cert *mint.Cert) { cert.Extensions = []mint.Option{{Name: "no-touch-required"}} })
	c.bad("an authority's signature with one bit turned", refusal.StageCrypto, refusal.BadSignature, "the authority did not sign it", func(cert *mint.Cert) { *cert = cert.Forged(c.t) })
	bad("neither for users nor for hosts", "the type is 1 or 2", func(cert *mint.Cert) { cert.Kind = 3 })
	bad("a nonce of 15 bytes", "a nonce has 16 bytes or more", func(cert *mint.Cert) { cert.Nonce = make([]byte, 15) })
	c.good("a nonce of 16 bytes", func(cert *mint.Cert) { cert.Nonce = make([]byte, 16) })
	bad("a reserved field", "the reserved field is empty", func(cert *mint.Cert) { cert.Reserved = "x" })
	bad("extensions out of their order", "they are in their order", func(cert *mint.Cert) { slices.Reverse(cert.Extensions) })
	bad("an extension twice", "each is there once", func(cert *mint.Cert) { cert.Extensions = slices.Repeat(cert.Extensions[1:2], 2) })
	bad("a critical option twice", "each is there once", func(cert *mint.Cert) { cert.Critical = slices.Repeat([]mint.Option{{Name: "verify-required"}}, 2) })
	bad("a key id with a line end", "a key id has no control characters", func(cert *mint.Cert) { cert.ID = "carol\nroot" })
	bad("bytes behind the certificate", "nothing follows its fields", func(cert *mint.Cert) { cert.Trailing = []byte{0} })
	bad("bytes behind the authority's signature", "nothing follows its fields", func(cert *mint.Cert) { cert.InnerRest = []byte{0} })
}
