package glob

import (
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pattern string
		code    refusal.Code
		says    string
	}{
		{"", refusal.BadParams, "empty or the scope itself"},
		{".", refusal.BadParams, "the scope itself"},
		{"././.", refusal.BadParams, "the scope itself"},
		{"{,a}", refusal.BadParams, "one of its alternatives, is empty"},
		{"{.,a}", refusal.BadParams, "the scope itself"},
		{"/", refusal.BadParams, "absolute"},
		{"/etc/passwd", refusal.BadParams, "absolute"},
		{"/src", refusal.BadParams, "absolute"},
		{"{/a,b}", refusal.BadParams, "absolute"},
		{"{,a}/b", refusal.BadParams, "absolute"},
		{"..", refusal.BadParams, "a segment .."},
		{"../a", refusal.BadParams, "a segment .."},
		{"a/../b", refusal.BadParams, "a segment .."},
		{"a/..", refusal.BadParams, "a segment .."},
		{`a/\.\./b`, refusal.BadParams, "a segment .."},
		{"{a,..}/b", refusal.BadParams, "a segment .."},
		{"{.,a}./b", refusal.BadParams, "a segment .."},
		{"**/../a", refusal.BadParams, "a segment .."},
		{"[.]", refusal.BadParams, "matches no path"},
		{"a/[.][.]/b", refusal.BadParams, "matches no path"},
		{"[abc", refusal.BadParams, "[ without its ]"},
		{"[]", refusal.BadParams, "[ without its ]"},
		{"[!]", refusal.BadParams, "[ without its ]"},
		{"[a-", refusal.BadParams, "[ without its ]"},
		{`[\`, refusal.BadParams, "ends with a backslash"},
		{"[z-a]", refusal.BadParams, "the wrong way round"},
		{"[a-c-e]", refusal.BadParams, "a range or not"},
		{"[a/b]", refusal.BadParams, "a / between"},
		{`[a\/b]`, refusal.BadParams, "an escaped /"},
		{"[[:alpha:]]", refusal.BadParams, "a named class"},
		{`a\/b`, refusal.BadParams, "an escaped /"},
		{`a\`, refusal.BadParams, "ends with a backslash"},
		{"{a,b", refusal.BadParams, "{ without its }"},
		{"a}", refusal.BadParams, "} without its {"},
		{"a\x00b", refusal.Malformed, "U+0000"},
		{"a\nb", refusal.Malformed, "U+000A"},
		{"a\u202eb", refusal.Malformed, "U+202E"},
		{"a\xffb", refusal.Malformed, "UTF-8"},
	} {
		_, err := Parse(c.pattern, Options{})
		require.ErrorIs(t, err, c.code, "%q", c.pattern)
		require.ErrorContains(t, err, c.says, "%q", c.pattern)
	}
}

// Every limit is tried at its value and above.
func TestLimits(t *testing.T) {
	t.Parallel()
	repeat := strings.Repeat
	for _, c := range []struct{ name, at, above string }{
		{"bytes", repeat("a", MaxBytes), repeat("a", MaxBytes+1)},
		{"bytes, not characters", repeat("é", MaxBytes/2), repeat("é", MaxBytes/2) + "a"},
		{"bytes, deep", repeat("a/", MaxBytes/2), repeat("a/", MaxBytes/2) + "b"},
		{"stars", repeat("*a", 10), repeat("*a", 11)},
		{"double stars", repeat("**/", 9) + "**", repeat("**/", 10) + "**"},
		{"question marks", repeat("?", 10), repeat("?", 11)},
		{"classes", repeat("[ab]", 10), repeat("[ab]", 11)},
		{"a run of stars is one wildcard", repeat("***a", 10), repeat("***a", 11)},
		{"alternatives count by themselves", "{" + repeat(",", 48) + "}a", "{" + repeat(",", 49) + "}a"},
		{"alternatives and what is in them", "{a" + repeat(",a", 24) + "}", "{a" + repeat(",a", 24) + "}b"},
		{"groups", repeat("{a,}", 16) + "bc", repeat("{a,}", 17)},
		{"groups in groups", repeat("{", 24) + "a" + repeat(",}", 24) + "b", repeat("{", 25) + "a" + repeat(",}", 25)},
		{"a path is one token", repeat("a/", 100) + "*", repeat("a/", 100) + repeat("*", 3) + repeat("/?", 10)},
	} {
		must.Get(Parse(c.at, Options{}))(t, c.name)
		must.Fail(Parse(c.above, Options{}))(t, refusal.TooComplex, c.name)
	}
}

// What is above a limit is refused as that, whatever else is wrong with it.
func TestLimitsComeFirst(t *testing.T) {
	t.Parallel()
	for _, p := range []string{strings.Repeat("\x00", MaxBytes+1), "../" + strings.Repeat("?", 11) + "[", strings.Repeat("{a,", 40)} {
		must.Fail(Parse(p, Options{}))(t, refusal.TooComplex)
	}
}

func TestCleaned(t *testing.T) {
	t.Parallel()
	const scope = "/home/alice/proj[1]"
	for given, want := range map[string]string{
		"./src//a.go": "src/a.go", "src/./a": "src/a", "src/.": "src", "src//": "src/", "./": "**", ".//.//": "**", "a***/b": "a**/b",
		"***": "**", `a/\./b`: "a/b", "a/**": "a/**", `/home/alice/proj\[1]/src/*.go`: "src/*.go", `//home/./alice/proj\[1]//a/`: "a/",
		`/home/alice/proj\[1]/`: "**", `/home/alice/proj\[1]/{/a,b}`: "./{/a,b}", "{a/,b}/.": "{a/,b}/.",
	} {
		p := must.Get(Parse(given, Options{Scope: scope}))(t, "%q", given)
		require.Equal(t, want, p.String(), "%q", given)
	}
	for _, outside := range []string{"/", "/home/alice", "/home/alice/projects/a", `/home/alice/proj\[1]`, `/home/alice/proj\[1]x/a`,
		"/home/alice/proj[1]/a", "/home/*/proj\\[1]/a", `/home/alice/proj\[1]/../b`, `/HOME/alice/proj\[1]/a`, `{/home/alice/proj\[1]/a,b}`} {
		must.Fail(Parse(outside, Options{Scope: scope}))(t, refusal.BadParams, "%q", outside)
	}
	p := must.Get(Parse(`/HOME/alice/PROJ\[1]/A`, Options{Scope: scope, FoldCase: true}))(t)
	require.Equal(t, "A", p.String())
	p = must.Get(Parse("/etc/*", Options{Scope: "/"}))(t)
	require.Equal(t, "etc/*", p.String())
}

func TestLiteral(t *testing.T) {
	t.Parallel()
	for pattern, want := range map[string]string{
		"a/b/*.go": "a/b", "a/b.go": "a/b.go", "a/b*": "a", "*": "", "**": "", "a/**": "a", "a/": "a", "a/b/**/c": "a/b", "**/a": "",
		"a/{b,c}/d": "a", "a/{b,b}/d": "a/b/d", "{a/b,a/c}/x": "a", "a{,/b}": "a", "a{,b}": "", "a{/b,/b/c}": "a/b", "[a]/[b]c/*": "a/bc",
		`\*/a`: "*/a", "a?/b": "", "é/*": "é", "{a,a/}/b": "a/b", "A/b/*": "A/b", "a/[ab]": "a",
	} {
		require.Equal(t, want, mustParse(t, pattern).Literal(), "%q", pattern)
	}
	for pattern, want := range map[string]string{"A/b/*": "a/b", "[aA]/x": "a/x", "[a]/*": "a", "ÉK/*": "ék"} {
		require.Equal(t, want, must.Get(Parse(pattern, Options{FoldCase: true}))(t).Literal(), "%q", pattern)
	}
}

// The cost of Overlap is bounded by the number of nodes.
func TestNodesAreBounded(t *testing.T) {
	t.Parallel()
	check := func(t require.TestingT, p Pattern) {
		require.LessOrEqual(t, len(p.nodes), 2+len([]rune(p.String()))+8*MaxTokens, "%q", p)
		for _, n := range p.nodes {
			require.LessOrEqual(t, len(n.edges), 4*MaxTokens, "%q", p)
		}
	}
	for _, pair := range worst() {
		check(t, mustParse(t, pair[0]))
		check(t, mustParse(t, pair[1]))
	}
	rapid.Check(t, func(t *rapid.T) { check(t, parsed(t, Options{}, "pattern")) })
}

func TestFoldableIsAllOfUnicode(t *testing.T) {
	t.Parallel()
	var want []rune
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if unicode.SimpleFold(r) != r {
			want = append(want, r)
		}
	}
	require.Equal(t, want, foldable())
}

func TestZeroPattern(t *testing.T) {
	t.Parallel()
	var p Pattern
	require.False(t, p.Match("a"))
	require.False(t, Overlap(p, p))
	require.False(t, Overlap(p, mustParse(t, "**")))
	require.Empty(t, p.String()+p.Literal())
}
