package authz

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"gated/internal/base/refusal"
	"gated/internal/test/mint"
)

// These tests take the one valid envelope, change one thing, and expect a refusal.

var mutatedKeys = []string{"alice", "ecdsa-p256", "rsa-3072"}

func TestEveryBitOfPayloadCounts(t *testing.T) { // S04
	t.Parallel()
	v := testVerifier(t)
	e := envelope(t, encode(t, testPayload), testKey(t, "alice"))
	for i := range len(e.Payload) * 8 {
		changed := Envelope{Payload: slices.Clone(e.Payload), Signatures: e.Signatures}
		changed.Payload[i/8] ^= 1 << (i % 8)
		_, err := v.Approval(changed, issued)
		require.Contains(t, []refusal.Code{refusal.Malformed, refusal.BadSignature}, refusal.CodeOf(err), "bit %d: %v", i, err)
	}
}

func TestEveryBitOfSignatureCounts(t *testing.T) { // S04
	t.Parallel()
	v, payload := testVerifier(t), encode(t, testPayload)
	codes := []refusal.Code{refusal.Malformed, refusal.BadSignature, refusal.NamespaceMismatch, refusal.UnknownSigner, refusal.WeakKey}
	for _, name := range mutatedKeys {
		blob := mint.Sign(t, testKey(t, name), "operational@gated", payload).Blob()
		for i := range len(blob) * 8 {
			changed := slices.Clone(blob)
			changed[i/8] ^= 1 << (i % 8)
			_, err := v.Approval(Envelope{Payload: payload, Signatures: []string{mint.Armor(changed, 70)}}, issued)
			require.Contains(t, codes, refusal.CodeOf(err), "%s bit %d: %v", name, i, err)
		}
	}
}

func TestEveryByteOfArmorCounts(t *testing.T) {
	t.Parallel()
	v, payload := testVerifier(t), encode(t, testPayload)
	armored := mint.Sign(t, testKey(t, "alice"), "operational@gated", payload).Armored()
	accepted := func(s string) bool {
		_, err := v.Approval(Envelope{Payload: payload, Signatures: []string{s}}, issued)
		return err == nil
	}
	require.True(t, accepted(armored))
	for i := range len(armored) {
		last := i == len(armored)-1 // the one newline that is optional
		require.Equal(t, last, accepted(armored[:i]+armored[i+1:]), "dropped byte %d", i)
		require.False(t, accepted(armored[:i]+armored[i:i+1]+armored[i:]), "doubled byte %d", i)
		for _, c := range []string{"\x00", "\r", " ", "\n", "=", "A", "-"} {
			if armored[i:i+1] != c {
				require.False(t, accepted(armored[:i]+c+armored[i+1:]), "byte %d became %q", i, c)
			}
			require.False(t, accepted(armored[:i]+c+armored[i:]), "%q before byte %d", c, i)
		}
	}
}

func TestEveryPartOfSignatureCounts(t *testing.T) {
	t.Parallel()
	v, payload := testVerifier(t), encode(t, testPayload)
	for _, name := range mutatedKeys {
		f := mint.Sign(t, testKey(t, name), "operational@gated", payload)
		outer := f.Fields()
		inner := [][]byte{mint.String(f.Format), mint.String(string(f.Value))}
		var blobs [][]byte
		for _, parts := range mutations(outer) {
			blobs = append(blobs, slices.Concat(parts...))
		}
		for _, parts := range mutations(inner) {
			last := mint.String(string(slices.Concat(parts...)))
			blobs = append(blobs, slices.Concat(append(slices.Clone(outer[:len(outer)-1]), last)...))
		}
		for i, blob := range blobs {
			_, err := v.Approval(Envelope{Payload: payload, Signatures: []string{mint.Armor(blob, 70)}}, issued)
			require.Error(t, err, "%s, mutation %d", name, i)
			require.NotEqual(t, refusal.Internal, refusal.CodeOf(err))
		}
	}
}

// mutations drops, doubles, empties and swaps parts, each way once.
func mutations(parts [][]byte) [][][]byte {
	var out [][][]byte
	for i := range parts {
		out = append(out, slices.Delete(slices.Clone(parts), i, i+1), slices.Insert(slices.Clone(parts), i, parts[i]))
		if len(parts[i]) > 4 {
			emptied := slices.Clone(parts)
			emptied[i] = mint.String("")
			out = append(out, emptied)
		}
		for j := range i {
			swapped := slices.Clone(parts)
			swapped[i], swapped[j] = swapped[j], swapped[i]
			out = append(out, swapped)
		}
	}
	return out
}

type member struct {
	name  string
	value jsontext.Value
}

func members(t *testing.T, payload []byte) []member {
	t.Helper()
	var m map[string]jsontext.Value
	require.NoError(t, json.Unmarshal(payload, &m))
	var out []member
	for name, value := range m {
		out = append(out, member{name, value})
	}
	slices.SortFunc(out, func(a, b member) int { return strings.Compare(a.name, b.name) })
	require.Equal(t, string(payload), join(out))
	return out
}

func join(ms []member) string {
	parts := make([]string, len(ms))
	for i, m := range ms {
		parts[i] = fmt.Sprintf("%q:%s", m.name, m.value)
	}
	return "{" + strings.Join(parts, ",") + "}"
}

func TestEveryMemberOfPayloadCounts(t *testing.T) {
	t.Parallel()
	v, alice := testVerifier(t), testKey(t, "alice")
	approve := func(e Envelope) error { _, err := v.Approval(e, issued); return err }
	reject := func(e Envelope) error { _, err := v.Rejection(e, issued); return err }
	for _, c := range []struct {
		payload []byte
		verify  func(Envelope) error
	}{{encode(t, testPayload), approve}, {encode(t, testRejection), reject}} {
		old := envelope(t, c.payload, alice)
		require.NoError(t, c.verify(old))
		all := members(t, c.payload)
		for i, m := range all {
			// In another form it is refused although it is signed.
			for what, changed := range reshaped(all, i) {
				err := c.verify(envelope(t, []byte(join(changed)), alice))
				require.Equal(t, refusal.Malformed, refusal.CodeOf(err), "%s %s", m.name, what)
			}
			// With another value it is refused under the old signature.
			other := slices.Clone(all)
			other[i].value = another(m)
			require.NotEqual(t, m.value, other[i].value)
			err := c.verify(Envelope{Payload: []byte(join(other)), Signatures: old.Signatures})
			require.Contains(t, []refusal.Code{refusal.BadSignature, refusal.Malformed}, refusal.CodeOf(err), "%s changed", m.name)
		}
	}
}

// reshaped drops, doubles, renames, nulls, retypes and reorders member i.
func reshaped(all []member, i int) map[string][]member {
	out := map[string][]member{
		"dropped": slices.Delete(slices.Clone(all), i, i+1),
		"doubled": slices.Insert(slices.Clone(all), i, all[i]),
	}
	set := func(what, name, value string) {
		changed := slices.Clone(all)
		changed[i] = member{name, jsontext.Value(value)}
		out[what] = changed
	}
	set("in capitals", strings.ToUpper(all[i].name), string(all[i].value))
	set("null", all[i].name, "null")
	set("a number", all[i].name, "1")
	set("an array", all[i].name, "[]")
	set("true", all[i].name, "true")
	for j := range all {
		if j != i {
			moved := slices.Clone(all)
			moved[i], moved[j] = moved[j], moved[i]
			out[fmt.Sprintf("swapped with %d", j)] = moved
		}
	}
	return out
}

// another returns another value, with the right form if that is easy.
func another(m member) jsontext.Value {
	switch m.name {
	case "params":
		return jsontext.Value(`{"snapshot":"other"}`)
	case "expires_at", "issued_at":
		return jsontext.Value(strings.Replace(string(m.value), ":00Z", ":01Z", 1))
	default:
		s := []byte(m.value)
		i := len(s) - 2
		s = slices.Clone(s)
		if s[i] == '1' {
			s[i] = '2'
		} else {
			s[i] = '1'
		}
		return s
	}
}
