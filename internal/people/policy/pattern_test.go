package policy

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// slowMatch is match in its simplest form.
func slowMatch(pattern, s []rune) bool {
	switch {
	case len(pattern) == 0:
		return len(s) == 0
	case pattern[0] == '*':
		return slowMatch(pattern[1:], s) || len(s) > 0 && slowMatch(pattern, s[1:])
	default:
		return len(s) > 0 && (pattern[0] == '?' || pattern[0] == s[0]) && slowMatch(pattern[1:], s[1:])
	}
}

func TestMatchIsTheSlowOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pattern := rapid.StringOfN(rapid.RuneFrom([]rune("aabé?**")), 1, 8, -1).Draw(t, "pattern")
		s := rapid.StringOfN(rapid.RuneFrom([]rune("aabé*?")), 0, 10, -1).Draw(t, "text")
		require.Equal(t, slowMatch([]rune(pattern), []rune(s)), match(pattern, s), "%q %q", pattern, s)
	})
}

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		pattern, s string
		want       bool
	}{
		{"", "", true}, {"", "anything", true}, {"*", "", true}, {"*", "anything", true}, {"?", "", false}, {"?", "é", true}, {"?", "ab", false},
		{"guest.destroy", "guest.destroy", true}, {"guest.destroy", "guest.destroyed", false}, {"guest.destroy", "a guest.destroy", false},
		{"guest.*", "guest.", true}, {"guest.*", "guestXdestroy", false}, {"guest/db-*", "guest/db-1", true}, {"guest/db-?", "guest/db-10", false},
		{"Guest.*", "guest.destroy", false}, {"*-prod", "guest/a-prod-prod", true}, {"*a*b*c", "xxaxxbxxbxxc", true}, {"*a*b*c", "xxaxxcxxb", false},
		{"a**", "a", true}, {"**", "", true}, {"a.b", "axb", false},
	} {
		require.Equal(t, c.want, match(c.pattern, c.s), "%q %q", c.pattern, c.s)
	}
}

// A pattern made to be slow takes at most the product of the lengths.
func TestHostilePatternsEnd(t *testing.T) {
	require.False(t, match(strings.Repeat("a*", maxPattern/2)+"b", strings.Repeat("a", 1<<16)))
	require.False(t, overlap(strings.Repeat("*a", maxPattern/2)+"b", strings.Repeat("a*", maxPattern/2)+"c"))
}

// TestOverlapIsACommonText tries all short texts: two patterns of n characters each
// need at most 2n for a common one.
func TestOverlapIsACommonText(t *testing.T) {
	texts := []string{""}
	for i := 0; len(texts[i]) < 6; i++ {
		texts = append(texts, texts[i]+"a", texts[i]+"b")
	}
	pattern := rapid.StringOfN(rapid.RuneFrom([]rune("ab?*")), 1, 3, -1)
	rapid.Check(t, func(t *rapid.T) {
		a, b := pattern.Draw(t, "a"), pattern.Draw(t, "b")
		common := false
		for _, s := range texts {
			common = common || match(a, s) && match(b, s)
		}
		require.Equal(t, common, overlap(a, b), "%q %q", a, b)
		require.Equal(t, common, overlap(b, a), "%q %q", b, a)
		require.True(t, overlap(a, "") && overlap("", b))
	})
}
