package ledger

import (
	"crypto/sha256"
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

const testGate = "0123456789abcdef0123456789abcdef"

// key is a key that signs by hashing with a secret: enough to see what is under a signature.
type key string

func (k key) Sign(message []byte) ([]byte, error) {
	sum := sha256.Sum256(append([]byte(k), message...))
	return sum[:], nil
}

func (k key) Verify(message, signature []byte) bool {
	want, _ := k.Sign(message)
	return slices.Equal(want, signature)
}

func TestAChainIsVerified(t *testing.T) {
	link := Link{}
	for n := range uint64(5) {
		g, next, err := sign(testGate, key("a"), link, 1+n/2, []byte{byte(n)})
		require.NoError(t, err)
		require.Equal(t, n+1, g.Number)
		got, err := Verify(testGate, key("a"), link, g)
		require.NoError(t, err)
		require.Equal(t, next, got)
		require.Equal(t, DigestOf(testGate, g), got.Digest)
		link = next
	}
}

// TestEachFieldIsUnderTheSignature changes one field of a good group, and expects the stage that refuses it. Where the
// change is not seen by an earlier stage, the signature has to see it.
func TestEachFieldIsUnderTheSignature(t *testing.T) {
	first, after, err := sign(testGate, key("a"), Link{}, 3, []byte("one"))
	require.NoError(t, err)
	good, _, err := sign(testGate, key("a"), after, 4, []byte("two"))
	require.NoError(t, err)
	for _, c := range []struct {
		name  string
		want  error
		gate  string
		key   key
		after Link
		edit  func(g *Group)
	}{
		{name: "number", want: ErrNumber, edit: func(g *Group) { g.Number = 3 }},
		{name: "number 0", want: ErrNumber, edit: func(g *Group) { g.Number = 0 }},
		{name: "number, at a place that fits", want: ErrSignature, after: Link{2, 3, after.Digest}, edit: func(g *Group) { g.Number = 3 }},
		{name: "lower era", want: ErrEra, edit: func(g *Group) { g.Era = 2 }},
		{name: "era 0", want: ErrEra, after: Link{1, 0, after.Digest}, edit: func(g *Group) { g.Era = 0 }},
		{name: "higher era", want: ErrSignature, edit: func(g *Group) { g.Era = 5 }},
		{name: "the same era as before", want: ErrSignature, edit: func(g *Group) { g.Era = 3 }},
		{name: "previous", want: ErrLink, edit: func(g *Group) { g.Previous[31] ^= 1 }},
		{name: "previous, at a place that fits", want: ErrSignature, after: Link{1, 3, Digest{1}}, edit: func(g *Group) { g.Previous = Digest{1} }},
		{name: "body", want: ErrSignature, edit: func(g *Group) { g.Body = []byte("twp") }},
		{name: "longer body", want: ErrSignature, edit: func(g *Group) { g.Body = append(slices.Clone(g.Body), 0) }},
		{name: "no body", want: ErrSignature, edit: func(g *Group) { g.Body = nil }},
		{name: "signature", want: ErrSignature, edit: func(g *Group) { g.Signature = append([]byte{g.Signature[0] ^ 1}, g.Signature[1:]...) }},
		{name: "no signature", want: ErrSignature, edit: func(g *Group) { g.Signature = nil }},
		{name: "another group's signature", want: ErrSignature, edit: func(g *Group) { g.Signature = first.Signature }},
		{name: "another gate", want: ErrSignature, gate: "1123456789abcdef0123456789abcdef"},
		{name: "another key", want: ErrSignature, key: "b"},
	} {
		t.Run(c.name, func(t *testing.T) {
			g, gate, k, link := good, testGate, key("a"), after
			if c.edit != nil {
				c.edit(&g)
			}
			if c.gate != "" {
				gate = c.gate
			}
			if c.key != "" {
				k = c.key
			}
			if c.after != (Link{}) {
				link = c.after
			}
			_, err := Verify(gate, k, link, g)
			require.ErrorIs(t, err, c.want)
			for _, other := range []error{ErrNumber, ErrEra, ErrLink, ErrSignature} {
				require.Equal(t, other == c.want, errors.Is(err, other))
			}
		})
	}
	_, err = Verify(testGate, key("a"), after, good)
	require.NoError(t, err)
}

func TestBodies(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		changes := rapid.SliceOfN(rapid.Byte(), 0, 2000).Draw(t, "changes")
		schema := rapid.IntRange(1, maxSchema).Draw(t, "schema")
		body, err := encodeBody(groupForm, schema, changes)
		require.NoError(t, err)
		version, got, err := decodeBody(groupForm, body)
		require.NoError(t, err)
		require.Equal(t, schema, version)
		require.Equal(t, string(changes), string(got))
		_, _, err = decodeBody(groupForm, append(slices.Clone(body), 0))
		require.ErrorIs(t, err, ErrBody, "a byte behind the end")
		n := rapid.IntRange(0, len(body)-1).Draw(t, "cut")
		_, _, err = decodeBody(groupForm, body[:n])
		require.ErrorIs(t, err, ErrBody, "cut after %d bytes", n)
	})
	for _, schema := range []int{0, -1, maxSchema + 1} {
		_, err := encodeBody(groupForm, schema, nil)
		require.Error(t, err)
	}
	_, err := encodeBody(groupForm, 1, make([]byte, maxChanges+1))
	require.Error(t, err)
}

// TestABodyOfAnotherLength: a body names its length, and one that inflates to more is not read to its end.
func TestABodyOfAnotherLength(t *testing.T) {
	body, err := encodeBody(groupForm, 1, make([]byte, 100))
	require.NoError(t, err)
	for name, at := range map[string][2]byte{"another form": {0, 2}, "no schema": {1, 0}, "longer": {2, 99}, "shorter": {2, 101}} {
		wrong := slices.Clone(body)
		wrong[at[0]] = at[1]
		_, _, err := decodeBody(groupForm, wrong)
		require.ErrorIs(t, err, ErrBody, name)
	}
	_, _, err = decodeBody(groupForm, []byte{groupForm, 1, 0xff, 0xff, 0xff, 0xff, 0x7f})
	require.ErrorIs(t, err, ErrBody)
}

// FuzzDecodeBody: what a body holds is encoded as a body that holds the same.
func FuzzDecodeBody(f *testing.F) {
	body, err := encodeBody(groupForm, 28, []byte("changes"))
	require.NoError(f, err)
	f.Add(body)
	f.Add([]byte{1, 1, 0, 1, 0, 0, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		schema, changes, err := decodeBody(groupForm, b)
		if err != nil {
			require.ErrorIs(t, err, ErrBody)
			return
		}
		again, err := encodeBody(groupForm, schema, changes)
		require.NoError(t, err)
		s, c, err := decodeBody(groupForm, again)
		require.NoError(t, err)
		require.Equal(t, schema, s)
		require.Equal(t, string(changes), string(c))
	})
}
