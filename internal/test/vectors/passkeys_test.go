package vectors

import (
	"bytes"
	"strings"
	"testing"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/test/mint"
)

// passkeys collects cases of signatures that a browser makes.
type passkeys struct{ envelopes }

// webauthn makes the cases of webauthn.json.
func webauthn(t *testing.T) []Vector {
	p := &passkeys{envelopes{t: t}}
	p.pages()
	p.clientData()
	p.flags()
	return p.out
}

// by is an approval that a passkey signed in a browser. The gate's list has the key, and its settings the console's page.
func (p *passkeys) by(change func(*mint.Browser)) (envelopeCase, signer) {
	b := mint.Console
	change(&b)
	k, payload := mint.Passkey(p.t, "phone", b), encoded(p.t, approval)
	c := usual(k.Line("phone", operational), payload, mint.Sign(p.t, k, op.Operational.Namespace(), payload))
	c.Gate.Origins = []string{mint.Console.Origin}
	who := touched(k, b.Flags, b.Counter)
	who.Origin = b.Origin
	return c, who
}

func (p *passkeys) good(n string, change func(*mint.Browser)) {
	c, who := p.by(change)
	c.Gate.Origins = append(c.Gate.Origins, who.Origin)
	p.accept(n, c, who)
}

func (p *passkeys) bad(n string, code refusal.Code, why string, change func(*mint.Browser)) {
	c, who := p.by(change)
	c.Gate.Origins = append(c.Gate.Origins, who.Origin)
	stage := refusal.StageCrypto
	p.refuse(n, c, stage, code, why)
}

func (p *passkeys) malformed(n, why string, change func(*mint.Browser)) {
	c, _ := p.by(change)
	p.refuse(n, c, refusal.StageDecode, refusal.Malformed, why)
}

func (p *passkeys) pages() {
	at := func(origin string) func(*mint.Browser) { return func(b *mint.Browser) { b.Origin = origin } }
	p.good("the console's page", func(*mint.Browser) {})
	p.good("a page with a port", at("https://console.example.com:8443"))
	p.good("a page below the application", at("https://a.console.example.com"))
	p.good("a page of this machine", func(b *mint.Browser) { b.Party, b.Origin = "localhost", "http://localhost:8080" })
	for _, o := range [][2]string{{"http", "http://console.example.com"}, {"the port of https", "https://console.example.com:443"}, {"another host", "https://console.example.org"}, {"a host that ends alike", "https://evilconsole.example.com"},
		{"the host above", "https://example.com"}, {"a host in capitals", "https://Console.example.com"}, {"a page with a path", "https://console.example.com/"}} {
		p.bad("a page: "+o[0], refusal.OriginMismatch, "the origin is of the application, in the form that browsers write", at(o[1]))
	}
	c, _ := p.by(at("https://console.example.com:8443"))
	p.refuse("a page that is not the gate's", c, refusal.StageCrypto, refusal.OriginMismatch, "the origin is one of the gate's, byte for byte")
	alice := mint.Ed25519(p.t, "alice")
	c.Gate.AllowedSigners += alice.Line("alice", operational)
	c.Envelope.Signatures = append(c.Envelope.Signatures, mint.Sign(p.t, alice, op.Operational.Namespace(), []byte("other")).Armored())
	p.refuse("a page that is not the gate's, and then a bad signature", c, refusal.StageCrypto, refusal.BadSignature, "each signature is verified before the gate's pages are asked")
	c, _ = p.by(func(*mint.Browser) {})
	c.Gate.Origins = nil
	p.refuse("a gate without pages", c, refusal.StageCrypto, refusal.OriginMismatch, "the gate has no pages")
	k, payload := mint.SKECDSA(p.t, "phone", mint.Authenticator{Application: mint.Console.Party, Flags: mint.UserPresent}), encoded(p.t, approval)
	p.refuse("the plain form by a passkey", usual(k.Line("phone", operational), payload, mint.Sign(p.t, k, op.Operational.Namespace(), payload)), refusal.StageDecode,
		refusal.Malformed, "a passkey signs in the form of WebAuthn alone")
	b := mint.Console
	b.Party, b.Origin = "127.0.0.1", "https://127.0.0.1"
	k = mint.Passkey(p.t, "phone", b)
	p.refuse("a passkey of an address", usual(mint.Ed25519(p.t, "alice").Line("alice", operational), payload, mint.Sign(p.t, k, op.Operational.Namespace(), payload)),
		refusal.StageDecode, refusal.Malformed, "an address is no relying party")
	b = mint.Console
	b.Party = "ssh:"
	k = mint.Passkey(p.t, "phone", b)
	p.refuse("the form of WebAuthn by a key for ssh:", usual(k.Line("phone", operational), payload, mint.Sign(p.t, k, op.Operational.Namespace(), payload)), refusal.StageDecode,
		refusal.Malformed, "such a key signs in the plain form alone")
}

func (p *passkeys) clientData() {
	says := func(change func(challenge, origin string) string) func(*mint.Browser) {
		return func(b *mint.Browser) { b.ClientData = change }
	}
	begin := func(challenge, origin string) string {
		return `{"type":"webauthn.get","challenge":"` + challenge + `","origin":"` + origin + `"`
	}
	ends := func(rest string) func(*mint.Browser) {
		return says(func(challenge, origin string) string { return begin(challenge, origin) + rest })
	}
	p.good("nothing behind the origin", ends("}"))
	p.good("an unknown member", ends(`,"crossOrigin":false,"other_keys_can_be_added_here":{"a":[1.5,null]}}`))
	p.bad("another challenge", refusal.BadSignature, "the challenge is the blob that is signed", says(func(_, origin string) string { return begin("AAAA", origin) + "}" }))
	p.bad("another origin than the signature's", refusal.BadSignature, "the origin is the signature's", says(func(challenge, _ string) string {
		return begin(challenge, "https://console.example.com:1") + "}"
	}))
	p.bad("a registration", refusal.BadSignature, "the type is webauthn.get", says(func(challenge, origin string) string {
		return strings.Replace(begin(challenge, origin), ".get", ".create", 1) + "}"
	}))
	p.bad("white space in the client data", refusal.BadSignature, "the beginning is compared byte for byte", says(func(challenge, origin string) string {
		return strings.Replace(begin(challenge, origin), ":", ": ", 1) + "}"
	}))
	p.bad("a second challenge", refusal.Malformed, "no member is doubled", ends(`,"challenge":"AAAA"}`))
	p.bad("a second CHALLENGE", refusal.Malformed, "a known name in other letters is the same name", ends(`,"CHALLENGE":"AAAA"}`))
	p.bad("a member twice, deep inside", refusal.Malformed, "no member is doubled, at any depth", ends(`,"x":{"a":1,"a":2}}`))
	p.bad("text behind the client data", refusal.Malformed, "it is one object", ends(`}x`))
	p.bad("a frame of another site", refusal.OriginMismatch, "crossOrigin is absent or false", ends(`,"crossOrigin":true}`))
	p.bad("CrossOrigin", refusal.OriginMismatch, "a known name in other letters is the same name", ends(`,"CrossOrigin":true}`))
	p.bad("cross_origin", refusal.OriginMismatch, "a known name with _ or - is the same name", ends(`,"cross_origin":true}`))
	p.bad("a topOrigin", refusal.OriginMismatch, "there is no topOrigin", ends(`,"crossOrigin":false,"topOrigin":"https://example.org"}`))
	p.good("client data of 4 KiB", says(func(challenge, origin string) string {
		s := begin(challenge, origin) + `,"x":"`
		return s + strings.Repeat("x", 4<<10-len(s)-2) + `"}`
	}))
	p.malformed("client data above 4 KiB", "client data has at most 4 KiB", says(func(challenge, origin string) string {
		s := begin(challenge, origin) + `,"x":"`
		return s + strings.Repeat("x", 4<<10-len(s)-1) + `"}`
	}))
}

func (p *passkeys) flags() {
	const there = mint.UserPresent
	flags := func(f byte) func(*mint.Browser) { return func(b *mint.Browser) { b.Flags = f } }
	p.good("a person was there, and was not verified", flags(there))
	p.bad("no person was there", refusal.TouchRequired, "flag 0x01 is not set", flags(mint.UserVerified))
	p.bad("a key that a vault may copy", refusal.WeakKey, "passkeys.synced does not allow it", flags(there|mint.BackupEligible))
	c, who := p.by(flags(there | mint.BackupEligible | mint.BackedUp))
	c.Gate.Synced = true
	p.accept("a key that a vault copied, and the gate allows it", c, who)
	p.malformed("copied, and never to be copied", "0x10 is never without 0x08", flags(there|mint.BackedUp))
	p.malformed("attested credential data", "flag 0x40 is of a registration", flags(there|mint.Attests))
	p.malformed("an unknown flag", "flag 0x02 is none", flags(there|0x02))
	p.malformed("extension data without its flag", "it is there if and only if 0x80 is", func(b *mint.Browser) { b.Extensions = []byte{0xa0} })
	p.malformed("the flag of extension data alone", "it is there if and only if 0x80 is", flags(there|mint.Extends))
	data := func(d []byte) func(*mint.Browser) {
		return func(b *mint.Browser) { b.Flags, b.Extensions = there|mint.Extends, d }
	}
	nested := func(arrays int) []byte {
		return append([]byte{0xa1, 0x61, 'a'}, append(bytes.Repeat([]byte{0x81}, arrays), 0x00)...)
	}
	p.good("extension data", data([]byte("\xa2\x61a\xf5\x61b\x43\x01\x02\x03")))
	p.good("a text that is no UTF-8", data([]byte("\xa1\x61a\x61\xff")))
	p.good("an empty map", data([]byte{0xa0}))
	p.good("four levels", data(nested(3)))
	p.malformed("five levels", "it is nested at most four levels", data(nested(4)))
	p.malformed("an array", "extension data is one map", data([]byte{0x80}))
	p.malformed("two maps", "it is one map to its last byte", data([]byte{0xa0, 0xa0}))
	p.malformed("a map that is cut off", "it is one map to its last byte", data([]byte{0xa1, 0x61, 'a'}))
	p.malformed("a map without its length", "each length is written out", data([]byte{0xbf, 0xff}))
	p.malformed("a simple value of two bytes that fits in one", "it is well-formed", data([]byte{0xa1, 0x61, 'a', 0xf8, 0x10}))
	p.malformed("a tag", "there are no tags", data([]byte{0xa1, 0x61, 'a', 0xc1, 0x00}))
	p.malformed("extension data above 1 KiB", "it has at most 1 KiB", data(append([]byte{0xa1, 0x61, 'a', 0x59, 0x04, 0x00}, make([]byte, 1<<10)...)))
}
