package op

import (
	"bytes"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"
)

var plainExamples = map[string][]string{
	`{"expires_at":"2026-03-02T12:00:00Z","gate":"6f1d","host":"pve1","incarnation":"","issued_at":"x","nonce":"AA","op":"o",` +
		`"params":{},"reason":"","state":"s","target":"guest/web-1","type":"gated/signed-op/v1"}`: approvalMembers,
	`{"expires_at":"","gate":"","host":"","incarnation":"","issued_at":"","nonce":"","op":"","params":{"a":[1,{"b":"x"}],` +
		`"labels":{"tier":"prod"},"m":512},"reason":"","state":"","target":"","type":""}`: approvalMembers,
	`{"expires_at":"","gate":"","host":"","issued_at":"","nonce":"","payload_sha256":"","reason":"why","request":"j12.1",` +
		`"type":"gated/rejection/v1"}`: rejectionMembers,
}

// TestPlainIsNeverLooserThanTheParser changes canonical objects at random. What plainMembers reads, the parser reads as
// the same members.
func TestPlainIsNeverLooserThanTheParser(t *testing.T) {
	alphabet := []byte(`"\{}[]:,u0019aA -.eE+` + "\x00\x1f\x7f\x80\xc3\xa9\xff/<&\n\t")
	random := rand.New(rand.NewPCG(1, 2))
	read, refused := 0, 0
	for example, names := range plainExamples {
		require.NotNil(t, plainMembers([]byte(example), names), example)
		for range 60_000 {
			b := []byte(example)
			for range 1 + random.IntN(3) {
				b = mutated(b, alphabet, random)
			}
			got := plainMembers(b, names)
			if got == nil {
				refused++
				continue
			}
			read++
			want, err := parsedMembers(b)
			require.NoError(t, err, "%q", b)
			require.True(t, maps.EqualFunc(want, got, func(x, y jsontext.Value) bool { return bytes.Equal(x, y) }), "%q", b)
		}
	}
	require.Greater(t, read, 5_000)
	require.Greater(t, refused, 5_000)
}

// mutated returns b with one byte, or one run of bytes, changed, added, removed or repeated.
func mutated(b, alphabet []byte, random *rand.Rand) []byte {
	at := random.IntN(len(b))
	end := min(len(b), at+random.IntN(12))
	c := alphabet[random.IntN(len(alphabet))]
	switch random.IntN(4) {
	case 0:
		return slices.Replace(slices.Clone(b), at, at+1, c)
	case 1:
		return slices.Insert(slices.Clone(b), at, c)
	case 2:
		return append(slices.Delete(slices.Clone(b), at, end), ' ')[:max(1, len(b)-(end-at))]
	default:
		return slices.Insert(slices.Clone(b), at, b[at:end]...)
	}
}

func TestPlainReadsOnlyCanonicalForm(t *testing.T) {
	names := []string{"a", "params"}
	for text, plain := range map[string]bool{
		`{"a":"x","params":{}}`:                  true,
		`{"a":"x","params":{"b":1,"c":true}}`:    true,
		`{"a":"x","params":{"c":1,"b":true}}`:    false, // not sorted
		`{"a":"x","params":{"b":1.0}}`:           false, // 1 is the canonical form
		`{"a":"x","params":{"b":1,"b":1}}`:       false,
		`{"a":"x","params":{"b":"\u0041"}}`:      false,
		`{"a":"x","params":{ }}`:                 false,
		`{"a":"x", "params":{}}`:                 false,
		`{"params":{},"a":"x"}`:                  false,
		`{"a":"x","params":{}} `:                 false,
		`{"a":"x","params":{}}}`:                 false,
		`{"a":"x","params":{},"z":""}`:           false,
		`{"a":"x"}`:                              false,
		`{"a":"\u0041","params":{}}`:             false,
		`{"a":"é","params":{}}`:                  false, // the parser reads it
		"{\"a\":\"\x7f\",\"params\":{}}":         false,
		"{\"a\":\"\xff\",\"params\":{}}":         false,
		`{"a":null,"params":{}}`:                 false,
		`{"a":"x","params":"{}"}`:                false,
		`{"a":"x","params":{}`:                   false,
		`["a":"x","params":{}}`:                  false,
		``:                                       false,
		`{"a":"x","params":{"b":{"d":1,"c":2}}}`: false,
	} {
		require.Equal(t, plain, plainMembers([]byte(text), names) != nil, text)
	}
}

func BenchmarkDecodePayload(b *testing.B) {
	raw := []byte(`{"expires_at":"2026-03-02T12:00:00Z","gate":"6f1d0c9b8a7e4d3c2b1a09f8e7d6c5b4","host":"pve1",` +
		`"incarnation":"7c9e6679:131077:1772366400000000000","issued_at":"2026-03-01T12:00:00Z","nonce":"AAECAwQFBgcICQoLDA0ODw",` +
		`"op":"guest.destroy","params":{},"reason":"clean-up",` +
		`"state":"sha256:50d858e0985ecc7f60418aaf0cc5ab587f42c2570a884095a9e8ccacd0f6545c","target":"guest/web-1",` +
		`"type":"gated/signed-op/v1"}`)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := DecodePayload(raw); err != nil {
			b.Fatal(err)
		}
	}
}
