package store

import (
	"errors"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// drawChange makes any change.
func drawChange(t *rapid.T) Change {
	n := rapid.IntRange(0, 4).Draw(t, "columns")
	row := func() *RowImage {
		r := &RowImage{ID: rapid.Int64().Draw(t, "id"), Values: make([]any, n)}
		for i := range r.Values {
			r.Values[i] = drawValue().Draw(t, "value")
		}
		return r
	}
	c := Change{Table: rapid.String().Draw(t, "table")}
	which := rapid.IntRange(1, 3).Draw(t, "which")
	if which&1 != 0 {
		c.Old = row()
	}
	if which&2 != 0 {
		c.New = row()
	}
	return c
}

// drawValue makes any value of SQLite, the odd ones often.
func drawValue() *rapid.Generator[any] {
	return rapid.OneOf(
		rapid.SampledFrom([]any{nil, int64(0), int64(math.MinInt64), int64(math.MaxInt64), 1.0, 0.5, math.Inf(1), math.SmallestNonzeroFloat64,
			"", "\x00", "a\x00b", "\xff\xfe", "1", []byte{}, []byte{0}, []byte("a\x00\xff")}),
		rapid.Map(rapid.Int64(), func(n int64) any { return n }),
		rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 300), func(b []byte) any { return string(b) }),
		rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 300), func(b []byte) any { return b }))
}

func decode(b []byte) (out []Change, err error) {
	for c, err := range DecodeChanges(b) {
		if err != nil {
			return out, err
		}
		out = append(out, c)
	}
	return out, nil
}

func TestChangesAreDecodedAsTheyWereEncoded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var b []byte
		want := rapid.SliceOfN(rapid.Custom(drawChange), 0, 5).Draw(t, "changes")
		for _, c := range want {
			b = AppendChange(b, c)
		}
		got, err := decode(b)
		require.NoError(t, err)
		require.Len(t, got, len(want))
		for i := range want {
			require.Equal(t, want[i], got[i])
		}
	})
}

func TestBytesThatAreNoChanges(t *testing.T) {
	one := AppendChange(nil, Change{Table: "t", New: &RowImage{ID: 1, Values: []any{int64(1), "x"}}})
	for n := 1; n < len(one); n++ {
		_, err := decode(one[:n])
		require.ErrorIs(t, err, errChanges, "cut after %d bytes", n)
	}
	for name, b := range map[string][]byte{
		"neither row":             {0, 1, 't', 0},
		"a third row":             {4, 1, 't', 0, 2},
		"a number in a long form": {2, 0x81, 0, 't', 0, 2},
		"a value of no kind":      {2, 1, 't', 1, 2, 5},
		"columns without bytes":   {2, 1, 't', 9, 2, 0},
		"too many columns":        append([]byte{2, 1, 't', 0xd1, 0x0f, 2}, make([]byte, 2001)...),
	} {
		_, err := decode(b)
		require.ErrorIs(t, err, errChanges, name)
	}
	most := append([]byte{2, 1, 't', 0xd0, 0x0f, 2}, make([]byte, 2000)...)
	_, err := decode(most)
	require.NoError(t, err)
}

// FuzzDecodeChanges: what is decoded is encoded as the same bytes, so that changes have one digest.
func FuzzDecodeChanges(f *testing.F) {
	f.Add(AppendChange(nil, Change{Table: "t", Old: &RowImage{ID: -1, Values: []any{nil, 0.5}}, New: &RowImage{ID: 1, Values: []any{"a\x00", []byte{1}}}}))
	f.Add([]byte{2, 0x81, 0, 't', 0, 2})
	f.Fuzz(func(t *testing.T, b []byte) {
		list, err := decode(b)
		var again []byte
		for _, c := range list {
			again = AppendChange(again, c)
		}
		if err == nil {
			require.Equal(t, string(b), string(again))
		} else {
			require.True(t, errors.Is(err, errChanges))
			require.Equal(t, string(b[:len(again)]), string(again))
		}
	})
}
