package op_test

import (
	"encoding/base64"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

// object is a JSON object as text, so that a test can break it.
type object []struct{ name, raw string }

func (o object) String() string {
	parts := make([]string, len(o))
	for i, m := range o {
		parts[i] = `"` + m.name + `":` + m.raw
	}
	return "{" + strings.Join(parts, ",") + "}"
}

// with returns a copy in which the member name has another raw value.
func (o object) with(name, raw string) object {
	c := slices.Clone(o)
	i := slices.IndexFunc(c, func(m struct{ name, raw string }) bool { return m.name == name })
	c[i].raw = raw
	return c
}

// sorted puts plain ASCII names into canonical order, so that the decoder sees only
// the intended fault.
func (o object) sorted() object {
	c := slices.Clone(o)
	slices.SortStableFunc(c, func(a, b struct{ name, raw string }) int { return strings.Compare(a.name, b.name) })
	return c
}

func parseObject(t *testing.T, s string) object {
	t.Helper()
	var o object
	d := jsontext.NewDecoder(strings.NewReader(s))
	must.Get(d.ReadToken())(t)
	for d.PeekKind() == '"' {
		name := must.Get(d.ReadToken())(t)
		text := name.String()
		raw := must.Get(d.ReadValue())(t)
		o = append(o, struct{ name, raw string }{text, string(raw)})
	}
	require.Equal(t, s, o.String(), "the reader of this test itself")
	return o
}

// signable is the common form of the two payloads.
type signable struct {
	name   string
	bytes  string
	decode func([]byte) (reencode func() ([]byte, error), err error)
}

var signables = []signable{
	{"payload", examplePayloadBytes, func(b []byte) (func() ([]byte, error), error) {
		p, err := op.DecodePayload(b)
		return p.Encode, err
	}},
	{"rejection", exampleRejectionBytes, func(b []byte) (func() ([]byte, error), error) {
		r, err := op.DecodeRejection(b)
		return r.Encode, err
	}},
}

func (s signable) requireMalformed(t *testing.T, doc string, what ...any) {
	t.Helper()
	_, err := s.decode([]byte(doc))
	r := requireRefusal(t, err, refusal.Malformed, append(what, doc)...)
	require.Equal(t, refusal.StageDecode, r.Stage, what...)
}

// TestEveryMemberMutated takes the one valid object and changes one member at a
// time: dropped, doubled, reordered, null, in another case, escaped, of another type
// (matrix row B10).
func TestEveryMemberMutated(t *testing.T) {
	for _, s := range signables {
		o := parseObject(t, s.bytes)
		for i, m := range o {
			s.requireMalformed(t, slices.Delete(slices.Clone(o), i, i+1).String(), "dropped")
			s.requireMalformed(t, slices.Insert(slices.Clone(o), i, m).String(), "doubled")
			other := m
			other.raw = `"x"`
			s.requireMalformed(t, slices.Insert(slices.Clone(o), i, other).String(), "doubled, the other first")
			s.requireMalformed(t, slices.Insert(slices.Clone(o), i+1, other).String(), "doubled, the other last")
			if i > 0 {
				swapped := slices.Clone(o)
				swapped[i-1], swapped[i] = swapped[i], swapped[i-1]
				s.requireMalformed(t, swapped.String(), "reordered")
			}
			for _, cased := range []string{strings.ToUpper(m.name), strings.ToUpper(m.name[:1]) + m.name[1:], " " + m.name, m.name + " ", m.name + "s"} {
				renamed := slices.Clone(o)
				renamed[i].name = cased
				s.requireMalformed(t, renamed.sorted().String(), "renamed", cased)
				both := append(slices.Clone(o), struct{ name, raw string }{cased, m.raw})
				s.requireMalformed(t, both.sorted().String(), "added", cased)
			}
			escaped := slices.Clone(o)
			escaped[i].name = `\u00` + hexByte(m.name[0]) + m.name[1:]
			s.requireMalformed(t, escaped.String(), "escaped name")

			for _, raw := range []string{`null`, `true`, `false`, `1`, `0`, `[]`, `["x"]`, `""`, `" "`, `{"a":null}`, `x`, ``} {
				free := m.name == "reason" || m.name == "incarnation" || m.name == "host" && raw == `" "`
				if free && (raw == `""` || raw == `" "`) {
					continue // these may be any text
				}
				s.requireMalformed(t, o.with(m.name, raw).String(), "replaced")
			}
			if m.name != "params" {
				s.requireMalformed(t, o.with(m.name, `{}`).String(), "replaced by an object")
				s.requireMalformed(t, o.with(m.name, `[`+m.raw+`]`).String(), "put into an array")
				spelt := `"\u00` + hexByte(m.raw[1]) + m.raw[2:]
				s.requireMalformed(t, o.with(m.name, spelt).String(), "escaped value")
			}
		}
		s.requireMalformed(t, append(slices.Clone(o), struct{ name, raw string }{"zzz", `"x"`}).String(), "an unknown member")
		s.requireMalformed(t, append(object{{"a", `1`}}, o...).String(), "an unknown member")
		s.requireMalformed(t, append(object{{"", `1`}}, o...).String(), "an unnamed member")
	}
}

func hexByte(c byte) string {
	const digits = "0123456789abcdef"
	return string([]byte{digits[c>>4], digits[c&15]})
}

// TestBytesAround has texts that are not exactly one canonical object.
func TestBytesAround(t *testing.T) {
	for _, s := range signables {
		b := s.bytes
		for _, doc := range []string{
			"", " ", "null", "{}", "[]", `""`, "0", b + "\n", b + " ", " " + b, "\n" + b, b + b, b + "{}", b + "null", b + "\x00",
			"[" + b + "]", `"` + b + `"`, "\xef\xbb\xbf" + b, b[:len(b)-1], b[1:], strings.Replace(b, ",", ", ", 1), strings.Replace(b, ":", ": ", 1),
			strings.Replace(b, ",", ",\n", 1), strings.Replace(b, "{", "{ ", 1), strings.Replace(b, ",", ",,", 1), b[:len(b)-1] + ",}",
			strings.Replace(b, "/", `\/`, 1), strings.ReplaceAll(b, `"`, `'`), b + "//", b + "/**/",
		} {
			s.requireMalformed(t, doc)
		}
	}
}

// TestOneIsNeverTheOther is matrix row S19 at this level.
func TestOneIsNeverTheOther(t *testing.T) {
	_, err := op.DecodePayload([]byte(exampleRejectionBytes))
	requireRefusal(t, err, refusal.Malformed)
	_, err = op.DecodeRejection([]byte(examplePayloadBytes))
	requireRefusal(t, err, refusal.Malformed)

	for _, s := range signables {
		o := parseObject(t, s.bytes)
		for _, typ := range []string{op.TypeSignedOp, op.TypeRejection, "gated/signed-op/v2", "gated/signed-op", "Gated/signed-op/v1", "gated/signed-op/v1 "} {
			doc := o.with("type", `"`+typ+`"`).String()
			if doc != s.bytes {
				s.requireMalformed(t, doc)
			}
		}
	}
}

// TestEveryBitFlipped: a changed bit is refused, or the bytes are the only form of
// another payload.
func TestEveryBitFlipped(t *testing.T) {
	for _, s := range signables {
		accepted := 0
		for i := range len(s.bytes) * 8 {
			b := []byte(s.bytes)
			b[i/8] ^= 1 << (i % 8)
			reencode, err := s.decode(b)
			if err != nil {
				requireRefusal(t, err, refusal.Malformed, string(b))
				continue
			}
			accepted++
			again := must.Get(reencode())(t)
			require.Equal(t, string(b), string(again))
		}
		require.Positive(t, accepted, "a letter of the reason may be another letter")
	}
}

// TestMembersOfTheWrongForm gives each string member the forms that its rule does
// not allow: rows B11 to B13, B15, B16 and T10.
func TestMembersOfTheWrongForm(t *testing.T) {
	long := strings.Repeat("x", 70<<10)
	hidden := []string{"a\u200bb", "a\u202eb", "a\u2028b", "a\u2029b", "a\ufeffb", "a\u00adb", "a\u2066b", "a\u0085b", "a\u007fb", "a\U000e0001b"}
	times := []string{"2026-03-01T12:00:00", "2026-03-01T12:00:00z", "2026-03-01t12:00:00Z", "2026-03-01 12:00:00Z", "2026-03-01T12:00:00+00:00",
		"2026-03-01T12:00:00.0Z", "2026-03-01T12:00Z", "2026-02-30T12:00:00Z", "2026-03-01T24:00:00Z", "2026-03-01T12:00:60Z", "2026-3-1T12:00:00Z",
		"2026-13-01T12:00:00Z", "1772366400", "02026-03-01T12:00:00Z", "+026-03-01T12:00:00Z", "2026-03-01T12:00:0OZ"}
	forms := map[string][]string{
		"gate":        {"6f1d", strings.ToUpper(string(gateID)), string(gateID) + "0", "6f1d0c9b8a7e4d3c2b1a09f8e7d6c5bg"},
		"host":        append(hidden, strings.Repeat("h", 254)),
		"op":          append(hidden, strings.Repeat("o", 65), "ab"),
		"incarnation": append(hidden, strings.Repeat("i", 513)),
		"reason":      append(hidden, strings.Repeat("r", op.MaxReason+1)),
		"request":     append(hidden, "j1", "j0.1", "j1.0", "1.1", "J1.1", "j01.1", "*"),
		"state": {"sha256:", string(op.FingerprintOf(nil))[:70], string(op.FingerprintOf(nil)) + "0", "md5:d41d8cd98f00b204e9800998ecf8427e",
			"SHA256" + string(op.FingerprintOf(nil))[6:], "sha256:" + strings.Repeat("G", 64)},
		"payload_sha256": {"", strings.Repeat("A", 64), strings.Repeat("a", 63), strings.Repeat("a", 65), strings.Repeat("g", 64)},
		"nonce":          badNonces,
		"issued_at":      append(times, "2026-03-03T12:00:00Z"), // after the end
		"expires_at":     append(times, "2026-03-01T12:00:00Z", "2026-03-01T11:59:59Z"),
		"type":           {"", "gated/signed-op/v2"},
	}
	for _, s := range signables {
		o := parseObject(t, s.bytes)
		for name, values := range forms {
			if !slices.ContainsFunc(o, func(m struct{ name, raw string }) bool { return m.name == name }) {
				continue
			}
			for _, v := range values {
				s.requireMalformed(t, o.with(name, quote(t, v)).String(), name)
			}
			_, err := s.decode([]byte(o.with(name, `"`+long+`"`).String()))
			requireRefusal(t, err, refusal.Oversized, name)
			for _, raw := range []string{`"\ud800"`, `"\udc00\ud800"`, "\"\xff\"", "\"\xed\xa0\x80\"", "\"\xc0\xaf\"", "\"a\nb\"", `"\u001b[31m"`, `"\n"`, `"\u0000"`} {
				s.requireMalformed(t, o.with(name, raw).String(), name)
			}
		}
	}
	o := parseObject(t, examplePayloadBytes)
	for _, target := range badTargets {
		if raw, err := jsontext.AppendQuote(nil, target); err == nil {
			signables[0].requireMalformed(t, o.with("target", string(raw)).String(), "target")
		}
	}
	signables[0].requireMalformed(t, o.with("target", `["guest/web-1"]`).String(), "a list of targets")
	for _, params := range badParams {
		signables[0].requireMalformed(t, o.with("params", params).String(), "params")
	}
	for _, params := range []string{`{"b":1,"a":2}`, `{ }`, `{"a":"\u0062"}`, `{"a":[[[[]]]]}`, `{"a":{"b":{"c":{"d":{}}}}}`} {
		signables[0].requireMalformed(t, o.with("params", params).String(), "params in another form, or too deep")
	}
}

func quote(t *testing.T, s string) string {
	t.Helper()
	b := must.Get(jsontext.AppendQuote(nil, s))(t)
	return string(b)
}

func encodeNonce(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// badNonces is matrix row T10.
var badNonces = []string{
	"", encodeNonce(make([]byte, 15)), encodeNonce(make([]byte, 33)), encodeNonce(make([]byte, 64)),
	base64.URLEncoding.EncodeToString(make([]byte, 16)), // padded
	strings.Repeat("+", 22), strings.Repeat("/", 22),    // the standard alphabet
	"AAECAwQFBgcICQoLDA0ODx",                           // bits after the last byte: a second spelling
	"AAECAwQFBgcICQoLDA0OD", "AAECAwQFBgcICQoLDA0ODw ", // 21 letters; a space
	"AAECAwQFBgc\nICQoLDA0ODw", "AAECAwQFBgcICQoLDA0OD*", // a line break, which some readers skip
	strings.Repeat("0f", 16) + "==", "ＡAECAwQFBgcICQoLDA0ODw",
}

func TestNonceLimits(t *testing.T) {
	for n := range 64 {
		err := op.CheckNonce(encodeNonce(make([]byte, n)))
		if n >= 16 && n <= 32 {
			require.NoError(t, err, "%d bytes", n)
			continue
		}
		requireRefusal(t, err, refusal.Malformed, n)
	}
	for _, s := range badNonces {
		requireRefusal(t, op.CheckNonce(s), refusal.Malformed, s)
	}
}
