package matrix_test

import (
	"strings"
	"testing"

	"gated/internal/base/refusal"
	"gated/internal/test/mint"
)

// field is a row in which dora's good signature has one of its parts changed
// after it was made.
func field(id, what string, want refusal.Code, change func(w *world, s *mint.Signature)) attack {
	return fieldOf(id, what, want, doraKey, change)
}

func fieldOf(id, what string, want refusal.Code, k func(w *world) mint.Key, change func(w *world, s *mint.Signature)) attack {
	return listed(id, what, want, dora(k), func(w *world) vote {
		return func(t testing.TB, payload []byte) string {
			s := mint.Sign(t, k(w), operational, payload)
			change(w, &s)
			return s.Armored()
		}
	})
}

// rewrapped is a row in which the armor of a good signature is written in
// another way.
func rewrapped(id, what string, want refusal.Code, change func(blob []byte) string) attack {
	k := doraKey
	return listed(id, "armor "+what, want, dora(k), func(w *world) vote {
		return func(t testing.TB, payload []byte) string {
			return change(mint.Sign(t, k(w), operational, payload).Blob())
		}
	})
}

// fieldRows are S12, each field of the format in turn.
var fieldRows = []attack{
	field("S12l", "another version of the format", refusal.Malformed, func(_ *world, s *mint.Signature) { s.Version = 2 }),
	field("S12m", "another magic", refusal.Malformed, func(_ *world, s *mint.Signature) { s.Magic = "SSHSIX" }),
	field("S12n", "made in the namespace git, and says operational", refusal.BadSignature, func(w *world, s *mint.Signature) {
		*s = mint.Unsigned(s.Key, "git").By(w.t, mint.Ed25519(w.t, "dora"), []byte("commit"))
		s.Namespace = operational
	}),
	field("S12o", "the key of another operator stands in it", refusal.BadSignature, func(w *world, s *mint.Signature) {
		s.Key = w.alice.signer(w.t).PublicKey().Marshal()
	}),
	field("S12p", "the key with bytes after it", refusal.Malformed, func(_ *world, s *mint.Signature) { s.Key = append(s.Key, 0) }),
	field("S12q", "no key", refusal.Malformed, func(_ *world, s *mint.Signature) { s.Key = nil }),
	field("S12r", "a hash in upper case", refusal.Malformed, func(_ *world, s *mint.Signature) { s.Hash = "SHA512" }),
	field("S12s", "a hash that is empty", refusal.Malformed, func(_ *world, s *mint.Signature) { s.Hash = "" }),
	field("S12t", "an inner signature of another type", refusal.Malformed, func(_ *world, s *mint.Signature) { s.Format = "rsa-sha2-512" }),
	field("S12u", "an inner signature without a type", refusal.Malformed, func(_ *world, s *mint.Signature) { s.Format = "" }),
	field("S12v", "an inner signature that is cut", refusal.Malformed, func(_ *world, s *mint.Signature) { s.Value = s.Value[:63] }),
	field("S12w", "an empty inner signature", refusal.Malformed, func(_ *world, s *mint.Signature) { s.Value = nil }),
	fieldOf("S12x", "a security key's signature with a byte after the counter", refusal.Malformed, token(mint.UserPresent),
		func(_ *world, s *mint.Signature) { s.Rest = append(s.Rest, 0) }),
	fieldOf("S12y", "a security key's signature without its counter", refusal.Malformed, ecToken(mint.UserPresent),
		func(_ *world, s *mint.Signature) { s.Rest = s.Rest[:1] }),
	rewrapped("S12z", "with a line break within, as mail programs make them", refusal.Malformed, func(blob []byte) string {
		return strings.Replace(mint.Armor(blob, 70), "\n", "\n\n", 2)
	}),
}
