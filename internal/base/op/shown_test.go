package op_test

import (
	"strconv"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gated/internal/base/op"
)

// TestHiddenByClass tries every code point. The scripts are those that Unicode
// writes from right to left.
func TestHiddenByClass(t *testing.T) {
	scripts := []*unicode.RangeTable{unicode.Hebrew, unicode.Arabic, unicode.Syriac, unicode.Thaana, unicode.Nko, unicode.Samaritan,
		unicode.Mandaic, unicode.Adlam, unicode.Mende_Kikakui, unicode.Hanifi_Rohingya, unicode.Old_Hungarian, unicode.Phoenician,
		unicode.Imperial_Aramaic, unicode.Old_South_Arabian, unicode.Kharoshthi, unicode.Cypriot, unicode.Yezidi, unicode.Sogdian}
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if r >= 0xd800 && r <= 0xdfff {
			continue // surrogates are no code points of UTF-8
		}
		switch {
		case op.CheckText("", string(r)) != nil, unicode.Is(unicode.Variation_Selector, r), r != ' ' && unicode.IsSpace(r),
			unicode.In(r, unicode.Co, unicode.Noncharacter_Code_Point), unicode.In(r, scripts...) && !unicode.Is(unicode.Common, r) && r < 0x10f30:
			require.True(t, op.Hidden(r), "%U", r)
		case r < 0x590 && unicode.IsPrint(r) && r != 0x34f, unicode.In(r, unicode.Han, unicode.Hangul) && unicode.IsLetter(r) && !unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r),
			unicode.In(r, unicode.Devanagari, unicode.Thai, unicode.Ethiopic, unicode.Georgian):
			require.False(t, op.Hidden(r), "%U", r)
		}
	}
	// Digits of the class AN, and letters of the class R that other scripts share.
	for _, r := range "\u0660\u0669\u066b\u06dd\u05d0\u0627\u07c0\ufb1d\ufdf2\ufe70\U00010800\U0001e900\U0001eeb0\u200f\u061c" {
		require.True(t, op.Hidden(r), "%U", r)
	}
}

func TestShown(t *testing.T) {
	for _, same := range []string{"", "cleanup", "Größe 字", "Vie\u0323\u0302t", `say "yes"`, "😀", `"`, `"a" and "b`, `C:\x`} {
		require.Equal(t, same, op.Shown(same))
	}
	for text, want := range map[string]string{
		"\u05d01": `"\u05d01"`, `"\u05d01"`: `"\"\\u05d01\""`, "\xff": `"\xff"`, "a\u200bb": `"a\u200bb"`, "\u2764\ufe0f": `"\u2764\ufe0f"`,
		"\u0301a": `"\u0301a"`, "a \u0301": `"a \u0301"`, "a\u00a0b": `"a\u00a0b"`, `"a"`: `"\"a\""`,
	} {
		require.Equal(t, want, op.Shown(text), "%q", text)
	}
	require.Equal(t, `"\u0430lice"`, op.ShownName("\u0430lice"))
	require.Equal(t, "alice", op.ShownName("alice"))
	require.Equal(t, `"prod"`, op.ShownQuoted("prod"))
	require.Equal(t, `"pr\u05d0d"`, op.ShownQuoted("pr\u05d0d"))
	require.Equal(t, `"a\" -> \"b"`, op.ShownQuoted(`a" -> "b`))
}

// On a terminal with the bidirectional algorithm these two look the same.
func TestPathsDoNotSwap(t *testing.T) {
	a, b := "src/\u05d0/1/x", "src/1/\u05d0/x"
	require.Equal(t, `"src/\u05d0/1/x"`, op.Shown(a))
	require.Equal(t, `"src/1/\u05d0/x"`, op.Shown(b))
}

// No two texts look the same, and the shown text gives the original back.
func TestShownIsInjective(t *testing.T) {
	texts := rapid.OneOf(rapid.String(), rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 8), func(b []byte) string { return string(b) }),
		rapid.StringOf(rapid.RuneFrom([]rune("ab \\\"xu05d\u05d0\u0661\u0301\ufe0f\u202eé"))))
	back := func(shown string) string {
		if len(shown) > 1 && shown[0] == '"' && shown[len(shown)-1] == '"' {
			text, err := strconv.Unquote(shown)
			if err == nil {
				return text
			}
		}
		return shown
	}
	rapid.Check(t, func(t *rapid.T) {
		text := texts.Draw(t, "text")
		for _, shown := range []string{op.Shown(text), op.ShownName(text), op.ShownQuoted(text)} {
			require.Equal(t, text, back(shown))
			require.True(t, op.Shows(shown), "%q", shown)
			for _, r := range shown {
				require.False(t, op.Hidden(r), "%U", r)
			}
		}
	})
}
