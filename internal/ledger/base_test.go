package ledger

import (
	"context"
	"crypto/sha256"
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/store"
)

// TestEachFieldOfABaseIsUnderTheSignature changes one field of a good base, or what it is checked with.
func TestEachFieldOfABaseIsUnderTheSignature(t *testing.T) {
	image := store.Kept{Place: store.Place{Number: 7, Era: 3, Digest: Digest{1}}, Schema: 2, Changes: []byte("rows"), Base: true}
	good, body, err := signBase(testGate, key("a"), image)
	require.NoError(t, err)
	require.NoError(t, VerifyBase(testGate, key("a"), good))
	require.Equal(t, good.Body, Digest(sha256.Sum256(body)))
	for name, edit := range map[string]func(b *Base){
		"number":       func(b *Base) { b.Number = 8 },
		"number 0":     func(b *Base) { b.Number = 0 },
		"era":          func(b *Base) { b.Era = 4 },
		"era 0":        func(b *Base) { b.Era = 0 },
		"digest":       func(b *Base) { b.Digest[31] ^= 1 },
		"body":         func(b *Base) { b.Body[0] ^= 1 },
		"signature":    func(b *Base) { b.Signature = append([]byte{b.Signature[0] ^ 1}, b.Signature[1:]...) },
		"no signature": func(b *Base) { b.Signature = nil },
	} {
		b := good
		edit(&b)
		require.ErrorIs(t, VerifyBase(testGate, key("a"), b), ErrBase, name)
	}
	require.ErrorIs(t, VerifyBase("1123456789abcdef0123456789abcdef", key("a"), good), ErrBase, "another gate")
	require.ErrorIs(t, VerifyBase(testGate, key("b"), good), ErrBase, "another key")
}

// TestASignatureOfAGroupIsNoneOfABase: a group whose fields are those of a base, and the reverse, has another message.
func TestASignatureOfAGroupIsNoneOfABase(t *testing.T) {
	body := []byte("body")
	b := Base{Number: 7, Era: 3, Digest: Digest{1}, Body: sha256.Sum256(body)}
	g := Group{Number: 7, Era: 3, Previous: Digest{1}, Body: body}
	b.Signature, _ = key("a").Sign(message(testGate, g))
	require.ErrorIs(t, VerifyBase(testGate, key("a"), b), ErrBase)
	g.Signature, _ = key("a").Sign(baseMessage(testGate, b))
	_, err := Verify(testGate, key("a"), Link{6, 3, Digest{1}}, g)
	require.ErrorIs(t, err, ErrSignature)
}

// oneBase is an engine that has a base.
type oneBase struct {
	Engine
	base Base
	body []byte
}

func (e oneBase) Base(context.Context) (Base, error)             { return e.base, nil }
func (e oneBase) BaseBody(context.Context, Base) ([]byte, error) { return e.body, nil }

func (e oneBase) Read(context.Context, uint64, int) ([]Group, error) { return nil, nil }

// FuzzBase reads bases with bodies of any bytes. One that is read has the schema and the rows that were signed.
func FuzzBase(f *testing.F) {
	image := store.Kept{Place: store.Place{Number: 7, Era: 3}, Schema: 2, Changes: []byte("rows"), Base: true}
	_, body, err := signBase(testGate, key("a"), image)
	require.NoError(f, err)
	group, err := encodeBody(groupForm, 2, []byte("rows"))
	require.NoError(f, err)
	f.Add(body)
	f.Add(group)
	f.Add([]byte{baseForm, 1, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, body []byte) {
		b := Base{Number: 7, Era: 3, Body: sha256.Sum256(body)}
		b.Signature, _ = key("a").Sign(baseMessage(testGate, b))
		kept, err := Read(t.Context(), oneBase{base: b, body: body}, testGate, key("a"), store.Place{})
		if err != nil {
			require.ErrorIs(t, err, ErrBody)
			return
		}
		require.Len(t, kept, 1)
		require.True(t, kept[0].Base)
		again, rows, err := signBase(testGate, key("a"), kept[0])
		require.NoError(t, err)
		schema, changes, err := decodeBody(baseForm, rows)
		require.NoError(t, err)
		require.Equal(t, b.place(), again.place())
		require.Equal(t, kept[0].Schema, schema)
		require.Equal(t, string(kept[0].Changes), string(changes))
		_, err = Read(t.Context(), oneBase{base: b, body: append(slices.Clone(body), 0)}, testGate, key("a"), store.Place{})
		require.ErrorIs(t, err, ErrBase, "other bytes than those that were signed")
	})
}

// TestAReaderThatIsBehind names the base, and how far it is.
func TestAReaderThatIsBehind(t *testing.T) {
	b := Base{Number: 7, Era: 3}
	_, err := Read(t.Context(), oneBase{base: b}, testGate, key("a"), store.Place{Number: 6, Era: 3})
	require.ErrorIs(t, err, ErrBehind)
	require.False(t, errors.Is(err, ErrLost))
	kept, err := Read(t.Context(), oneBase{base: b}, testGate, key("a"), store.Place{Number: 7, Era: 3})
	require.NoError(t, err)
	require.Empty(t, kept)
}
