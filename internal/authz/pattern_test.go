package authz

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestMatchList(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		list, name string
		want       bool
	}{
		{"alice", "alice", true},
		{"alice", "Alice", false},
		{"alice", "alice ", false},
		{"alice", "", false},
		{"*", "", true},
		{"*", "anybody at all", true},
		{"?", "a", true},
		{"?", "", false},
		{"?", "å", false},
		{"??", "å", true}, // bytes, as in ssh-keygen
		{"*@example.com", "alice@example.com", true},
		{"*@example.com", "@example.com", true},
		{"*@example.com", "alice@example.com.evil.org", false},
		{"*@example.com", "alice@exampleXcom", false},
		{"al*ce*", "alce", true},
		{"al*ce*", "alicia", false},
		{"a*b*c", "aXbXbXc", true},
		{"a*b?c", "abbbXc", true},
		{"a*b?c", "abc", false},
		{"**", "x", true},
		{"bob,alice", "alice", true},
		{"*@example.com,!root@*", "alice@example.com", true},
		{"*@example.com,!root@*", "root@example.com", false},
		{"!root@*,*@example.com", "root@example.com", false},
		{"!root@*,*@example.com", "alice@example.com", true},
		{"!bob,alice", "carol", false},
		{"alice,!*", "alice", false},
		{`a\*`, "a*", false},
		{`a\*`, `a\x`, true},
		{"[ab]", "a", false},
	} {
		require.Equal(t, c.want, matchList(c.name, c.list), "%s ~ %s", c.name, c.list)
	}
}

// TestMatchPatternIsTheExpression compares with regular expressions.
func TestMatchPatternIsTheExpression(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		pattern := rapid.StringOfN(rapid.SampledFrom([]rune("ab*?")), 0, 12, -1).Draw(t, "pattern")
		name := rapid.StringOfN(rapid.SampledFrom([]rune("ab")), 0, 16, -1).Draw(t, "name")
		expression := regexp.MustCompile("^" + strings.NewReplacer("*", ".*", "?", ".").Replace(pattern) + "$")
		require.Equal(t, expression.MatchString(name), matchPattern(name, pattern))
	})
}

// TestMatchPatternIsBounded: this input would take a matcher for ever that tries
// every *.
func TestMatchPatternIsBounded(t *testing.T) {
	t.Parallel()
	require.False(t, matchPattern(strings.Repeat("a", maxPattern), strings.Repeat("*a", maxPattern/2)+"b"))
	require.True(t, matchPattern(strings.Repeat("a", maxPattern), strings.Repeat("*a", maxPattern/2)+"*"))
}
