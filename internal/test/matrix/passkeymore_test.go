package matrix_test

import (
	"crypto/elliptic"
	"math/big"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/authz"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/test/mint"
)

// extends is a row in which the authenticator sends extension data that is not one map of CBOR, under its flag.
func extends(id, what string, data ...byte) attack {
	return saying(id, "extension data "+what, refusal.Malformed, refusal.StageDecode, mint.UserPresent|mint.Extends, data...)
}

// reshaped is a row in which a passkey's right signature is changed after it was made.
func reshaped(id, what string, code refusal.Code, stage refusal.Stage, b mint.Browser, change func(s *mint.Signature)) attack {
	return attack{id: id, what: what, want: code, run: func(w *world) error {
		w.browse()
		r := w.destroyRequest()
		w.arm()
		s := mint.Sign(w.t, mint.Passkey(w.t, "pam", b), operational, r.Payload)
		change(&s)
		return w.refusedAt(w.send(r.ID, one(r.Payload, s.Armored())), code, stage)
	}}
}

// extending is the console's page with extension data.
func extending() mint.Browser {
	b := mint.Console
	b.Flags, b.Extensions = b.Flags|mint.Extends, []byte{0xa1, 0x61, 'x', 0x01}
	return b
}

// otherHalf makes another signature of one, by the negative s. Who has no key can do that.
func otherHalf(s *mint.Signature) {
	n := len(s.Value) - int(s.Value[3]) - 4 // what s has, with its length
	negative := new(big.Int).Sub(elliptic.P256().Params().N, new(big.Int).SetBytes(s.Value[len(s.Value)-n+4:]))
	s.Value = slices.Concat(s.Value[:len(s.Value)-n], mint.Mpint(negative))
}

// passkeyMoreRows are S28: extension data that lies, members in other letters, and signatures that are taken apart.
var passkeyMoreRows = []attack{
	extends("S28a", "goes on after its map", 0xa0, 0x00),
	extends("S28b", "is cut short", 0xa1, 0x63, 'u', 'v', 'm'),
	extends("S28c", "has a map without a length", 0xbf, 0xff),
	extends("S28d", "says that 2^64-1 members follow", 0xbb, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff),
	extends("S28e", "has a text that is longer than it", 0xa1, 0x61, 'x', 0x7b, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff),
	extends("S28f", "nests five levels deep", 0xa1, 0x00, 0xa1, 0x00, 0xa1, 0x00, 0xa1, 0x00, 0xa0),
	extends("S28g", "is a list", 0x80),
	extends("S28h", "has a tag", 0xa1, 0x61, 'x', 0xc0, 0x00),
	browsing("S28i", "a second challenge in other letters", refusal.Malformed, refusal.StageCrypto, writes(`false}`, `false,"CHALLENGE":"AAAA"}`)),
	browsing("S28j", "a second origin in other letters", refusal.Malformed, refusal.StageCrypto, writes(`false}`, `false,"Origin":"https://evil.example"}`)),
	browsing("S28k", "crossOrigin is true, and in other letters", refusal.OriginMismatch, refusal.StageCrypto, writes(`"crossOrigin":false`, `"CrossOrigin":true`)),
	browsing("S28l", "crossOrigin is true, and its name has an escape", refusal.OriginMismatch, refusal.StageCrypto, writes(`"crossOrigin":false`, `"cross\u004frigin":true`)),
	browsing("S28m", "the page had a payment signed", refusal.BadSignature, refusal.StageCrypto, writes("webauthn.get", "payment.get")),
	browsing("S28n", "the origin brings members of its own", refusal.Malformed, refusal.StageCrypto, func(b *mint.Browser) { b.Origin += `","crossOrigin":false,"x":"y` }),
	browsing("S28o", "the client data is no UTF-8", refusal.Malformed, refusal.StageCrypto, writes(`false}`, "false,\"x\":\"\xff\"}")),
	browsing("S28p", "a page that another site names as its own", refusal.OriginMismatch, refusal.StageCrypto, func(b *mint.Browser) { b.Origin = "https://console.example" }),
	reshaped("S28q", "extension data is taken away after the signature, with its flag", refusal.BadSignature, refusal.StageCrypto, extending(), func(s *mint.Signature) {
		s.Rest = slices.Concat(s.Rest[:len(s.Rest)-8], mint.Uint32(0))
		s.Rest[0] &^= mint.Extends
	}),
	reshaped("S28r", "extension data is exchanged after the signature", refusal.BadSignature, refusal.StageCrypto, extending(), func(s *mint.Signature) {
		s.Rest[len(s.Rest)-1] = 0x02
	}),
	reshaped("S28s", "a passkey's signature names another hash", refusal.BadSignature, refusal.StageCrypto, mint.Console, func(s *mint.Signature) { s.Hash = mint.SHA256 }),
	reshaped("S28t", "a browser's signature is cut down to the plain form", refusal.Malformed, refusal.StageDecode, mint.Console, func(s *mint.Signature) {
		s.Format, s.Rest = "sk-ecdsa-sha2-nistp256@openssh.com", s.Rest[:5]
	}),
	reshaped("S28u", "the flag that a vault may copy the key is taken away after the signature", refusal.BadSignature, refusal.StageCrypto, func() mint.Browser {
		b := mint.Console
		b.Flags |= mint.BackupEligible
		return b
	}(), func(s *mint.Signature) { s.Rest[0] &^= mint.BackupEligible }),
	{id: "S28v", what: "two people are needed, and one passkey's signature is there twice, once with its negative s", want: refusal.ThresholdUnmet, run: func(w *world) error {
		w.browse()
		w.two()
		r := w.destroyRequest()
		s := mint.Sign(w.t, pam(w), operational, r.Payload)
		r = w.mustSign(r, func(testing.TB, []byte) string { return s.Armored() })
		require.Equal(w.t, 1, r.Missing())
		other := s
		otherHalf(&other)
		require.NotEqual(w.t, s.Armored(), other.Armored())
		w.arm()
		return w.send(r.ID, authz.Envelope{Payload: r.Payload, Signatures: []string{other.Armored()}})
	}},
	{id: "S28w", what: "the same point is listed for ssh: too, and the passkey's signature is given for that key's", want: refusal.BadSignature, run: func(w *world) error {
		same := mint.Strings([]byte("sk-ecdsa-sha2-nistp256@openssh.com"), []byte("nistp256"), pam(w).Blob()[4+34+4+8+4:4+34+4+8+4+65], []byte("ssh:"))
		w.browse("dora@example.com " + lineOptions(operational) + " " + mint.Text("sk-ecdsa-sha2-nistp256@openssh.com", same) + "\n")
		r := w.destroyRequest()
		s := mint.Sign(w.t, pam(w), operational, r.Payload)
		s.Key = same
		w.arm()
		require.ErrorIs(w.t, w.send(r.ID, one(r.Payload, s.Armored())), refusal.Malformed)
		s.Format, s.Rest = "sk-ecdsa-sha2-nistp256@openssh.com", s.Rest[:5]
		return w.refusedAt(w.send(r.ID, one(r.Payload, s.Armored())), refusal.BadSignature, refusal.StageCrypto)
	}},
	{id: "S28x", what: "a passkey's signature over a batch is handed in for one request, and the reverse", want: refusal.NamespaceMismatch, run: func(w *world) error {
		dora := otherPasskey(w)
		w.browse(dora.Line("dora@example.com", lineOptions(bothUses)))
		r := w.destroyRequest()
		_, es := w.signedBatch(voteIn(dora, ofBatches), nil, r.Payload)
		w.arm()
		alone := es[0]
		alone.Signatures = []string{minted(dora)(w.t, alone.Batch.Batch)}
		_ = w.refusedAt(w.send(r.ID, alone), refusal.NamespaceMismatch, refusal.StageNamespace)
		alone.Signatures = []string{voteIn(dora, ofBatches)(w.t, r.Payload)}
		_ = w.refusedAt(w.send(r.ID, alone), refusal.BadSignature, refusal.StageCrypto)
		require.Error(w.t, w.send(r.ID, one(es[0].Batch.Batch, es[0].Signatures[0])), "the batch in the place of a payload")
		return w.refusedAt(w.send(r.ID, one(r.Payload, es[0].Signatures[0])), refusal.NamespaceMismatch, refusal.StageNamespace)
	}},
	{id: "S28y", what: "while a step cools off, the page's origin is taken out and put back with a slash, a port or other letters", want: refusal.OriginMismatch, run: func(w *world) error {
		w.browse()
		w.rule(cool(coolOff))
		r := w.mustSign(w.destroyRequest(), minted(pam(w)))
		require.Equal(w.t, op.StateAuthorized, r.Step.State)
		w.pass(coolOff)
		w.pages(op.Passkeys{Origins: []string{mint.Console.Origin + "/", mint.Console.Origin + ":443", "https://Console.example.com"}, Synced: true})
		w.arm()
		w.allow.repair = w.asBefore
		return w.executor().execute(w.ctx, r.ID)
	}},
}
