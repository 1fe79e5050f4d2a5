package cli

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gated/internal/base/op"
)

func TestInline(t *testing.T) {
	for _, same := range []string{"", "cleanup", "a b c", "Größe 字", "Vie\u0323\u0302t", `say "yes"`, "😀", "1.5 %"} {
		require.Equal(t, same, Inline(same))
	}
	for text, want := range map[string]string{
		"a  b": `"a\x20\x20b"`, " a": `" a"`, "a ": `"a "`, " ": `" "`, "a   ": `"a\x20\x20\x20"`, "a\nb": `"a\nb"`, "a  é": `"a\x20\x20\u00e9"`,
		"a\u2800b": `"a\u2800b"`, "a\u3164b": `"a\u3164b"`, "a\u115fb": `"a\u115fb"`, "a\uffa0b": `"a\uffa0b"`,
		"a\u00a0b": `"a\u00a0b"`, "a\u3000b": `"a\u3000b"`, "a\u2003b": `"a\u2003b"`, "a\u034fb": `"a\u034fb"`,
		"\u05dc\u05d0": `"\u05dc\u05d0"`, "a\u0661": `"a\u0661"`, "a\ufe0f": `"a\ufe0f"`, `"a"`: `"\"a\""`,
		"a\ue000": `"a\ue000"`, "a\u0378": `"a\u0378"`, "\u202ea": `"\u202ea"`,
		"a\u0301\u0301\u0301": `"a\u0301\u0301\u0301"`, "\u0301": `"\u0301"`, "a \u0332": `"a \u0332"`,
	} {
		require.Equal(t, want, Inline(text))
	}
}

// Whatever is said, no two blanks in a row are left of it, and nothing that was
// shown as it is reads like what was quoted.
func TestInlineLeavesNoLayout(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOf(rapid.RuneFrom([]rune("a \t\n\u00a0\u2800\u3164\u0301é字\"\\"))).Draw(t, "text")
		shown := Inline(text)
		require.False(t, strings.Contains(shown, "  "), shown)
		require.False(t, strings.ContainsAny(shown, "\t\n\u00a0\u2800\u3164"), shown)
		require.False(t, strings.Contains(shown, "\u0301\u0301\u0301"), shown)
	})
}

// Two texts are never shown alike, and what is shown holds nothing that moves or
// hides its neighbours.
func TestInlineIsInjective(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		texts := rapid.OneOf(rapid.String(), rapid.StringOf(rapid.RuneFrom([]rune("ab \\\"xu05d\u05d0\u0661\u0301\ufe0f\u202eé"))))
		a, b := texts.Draw(t, "a"), texts.Draw(t, "b")
		if a != b {
			require.NotEqual(t, Inline(a), Inline(b))
		}
		// What is shown of one, given as it stands, is another text.
		if Inline(a) != a {
			require.NotEqual(t, Inline(a), Inline(Inline(a)))
		}
		require.True(t, op.Shows(Inline(a)), Inline(a))
	})
}

func TestPerson(t *testing.T) {
	require.Equal(t, "alice@example.com", Person("alice@example.com"))
	require.Equal(t, `"\u0430lice@example.com"`, Person("\u0430lice@example.com"), "a Cyrillic letter")
	require.Equal(t, `"a\x20\x20b"`, Person("a  b"))
	require.Equal(t, `"Gr\u00fcn"`, Person("Grün"))
}

func TestAsked(t *testing.T) {
	require.Equal(t, "guest/web-1", Asked("guest/web-1", nil))
	require.Equal(t, "guest/web-1", Asked("guest/web-1", op.Params{}))
	require.Equal(t, `command/drop-db {"database":"shop","mode":"soft"}`,
		Asked("command/drop-db", op.Params{"mode": "soft", "database": "shop"}))
	require.Equal(t, `command/x {"a":"`+strings.Repeat("é", 54)+"...", Asked("command/x", op.Params{"a": strings.Repeat("é", 90)}))
	for _, odd := range []string{"a  b", "x\u202ey", "\u3164", "e\u0301\u0301\u0301"} {
		shown := Asked("command/x", op.Params{"a": odd})
		require.NotContains(t, shown, odd)
		require.Equal(t, shown, Inline(shown), "it can stand in a row")
	}
}
