package glob

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/test/must"
)

// The numbers are those of the rules in docs/formats/patterns.md.
func TestMatch(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ pattern, matches, not string }{
		// 1, 2
		{"src/a.go", "src/a.go", "src src/a.go/x src/a_go SRC/a.go a.go"},
		{"src", "src", "src/a srcs"},
		// 3
		{"*", "a .a ... ..a é 日本 a,b", "a/b . .."},
		{"*.go", ".go a.go a.b.go", "a.g a/b.go a.go/"},
		{"?", "a é 日 \x01 \xff", "ab . \xff\xff"},
		{".?", ".a", "a ..."},
		{"a*b*c", "abc aXbYc abcbc", "ac abcb"},
		// 4
		{"[abc]", "a b c", "d ab"},
		{"[!abc]", "d é", "a b ."},
		{"[^abc]", "d ^", "a b"},
		{"[a^!]", "a ^ !", "b"},
		{"[]a]", "] a", "[ ]a"},
		{"[!]a]", "[ b", "] a"},
		{"[a-]", "a -", "b"},
		{"[-a]", "a -", "b"},
		{"[a-c]x", "ax bx cx", "dx"},
		{"[+--]", "+ , -", ". /"},
		{"x[+-9]", "x. x5", "x/"},
		{`[\]\-\\]`, `] - \`, "a"},
		{"[{,}]*", "{a} , }", "a"},
		{"[*?]", "* ?", "a"},
		{"[[]", "[", "a"},
		{"[а-я]", "ж", "z"},
		// 5
		{"**", "a a/b a/b/c .a", ""},
		{"a/**", "a a/b a/b/c", "b ab"},
		{"**/a", "a x/a x/y/a", "a/x xa"},
		{"a/**/b", "a/b a/x/b a/x/y/b", "ab a/xb"},
		{"a/**/**/b", "a/b a/x/y/b", "a"},
		{"a**b", "ab axxb", "a/b"},
		{"a/**b", "a/b a/xb", "a a/x/b"},
		{"***", "a a/b", ""},
		{"{*,x}*", "a a/b x xa", ""},
		// 6
		{"a/", "a a/b a/b/c", "b"},
		{"*/", "a a/b", ""},
		{"a*/", "a ab/c", "b/a"},
		{"**/", "a a/b", ""},
		// 7
		{"*.{rs,toml}", "a.rs a.toml", "a.md a."},
		{"a{,.bak}", "a a.bak", "ab"},
		{"a/{b,c/d}/e", "a/b/e a/c/d/e", "a/c/e"},
		{"a/{,b/}c", "a/c a/b/c", "a/b a"},
		{"a{/b,}", "a a/b", "a/c"},
		{"{a,{b,c}d}", "a bd cd", "b c ad"},
		{"a/{,b}", "a a/x a/b", "b"},
		{"{**,x}/a", "a y/a x/a", "x"},
		{"{a}", "a", "{a}"},
		{"a{}b", "ab", "a{}b"},
		{"a,b", "a,b", "a"},
		// 8
		{`\*`, "*", "a"},
		{`\{a,b\}`, "{a,b}", "a b"},
		{`a\b\\`, `ab\`, `a\b\`},
		// 9
		{"./{/a,b}", "a b", "/a"},
		{"{./,}a//b", "a/b", "a"},
		{"{a/.,b}", "a b", "a/x"},
	} {
		p := mustParse(t, c.pattern)
		slow, ok := slowRead(c.pattern, false)
		require.True(t, ok)
		for _, path := range strings.Fields(c.matches) {
			require.True(t, p.Match(path), "%q matches %q", c.pattern, path)
			require.True(t, slow.match(path), "%q matches %q", c.pattern, path)
		}
		for _, path := range append(strings.Fields(c.not), "", "/", "a//b", "/a", "a/", "./a", "a/..", "..") {
			require.False(t, p.Match(path), "%q does not match %q", c.pattern, path)
			require.False(t, slow.match(path), "%q does not match %q", c.pattern, path)
		}
	}
}

func TestMatchIgnoresCaseWhereTheFileSystemDoes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ pattern, matches, not string }{
		{"Src/*.GO", "src/a.go SRC/A.Go", "src/a.g"},
		{"[a-c]", "a A C", "d D"},
		{"[!a]", "b B", "a A"},
		{"k", "k K \u212a", "x"}, // the Kelvin sign
		{"σ", "σ Σ ς", "s"},
		{"straße", "STRAßE STRAẞE", "STRASSE"}, // simple folding keeps the length
	} {
		p := must.Get(Parse(c.pattern, Options{FoldCase: true}))(t)
		for _, path := range strings.Fields(c.matches) {
			require.True(t, p.Match(path), "%q matches %q", c.pattern, path)
		}
		for _, path := range strings.Fields(c.not) {
			require.False(t, p.Match(path), "%q does not match %q", c.pattern, path)
		}
	}
}

// Overlaps that depend on what no path has.
func TestOverlapIsAboutPathsThatExist(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{".?", "?.", false}, // only ".."
		{".?*", "?.*", true},
		{"a/**", "a", true},
		{"a/**/b", "a/b", true},
		{"a/", "a", true},
		{"a/*", "a", false},
		{"{a,b}/x", "{b,c}/x", true},
		{"{a,b}/x", "{c,d}/x", false},
		{"**/a/**/b", "b/**/a", false},
		{"**/a/**/b/**", "b/**/a/**", true},
		{"[퟿-\ue000]", "[!퟿\ue000]", false}, // surrogates are between, which UTF-8 does not have
		{"[+-9]", "[!+,.0-9-]", false},      // and "/" is
		{"src/**", "src/a/b.go", true},
	} {
		require.Equal(t, c.want, Overlap(mustParse(t, c.a), mustParse(t, c.b)), "%q and %q", c.a, c.b)
		require.Equal(t, c.want, Overlap(mustParse(t, c.b), mustParse(t, c.a)), "%q and %q", c.b, c.a)
	}
}

// Folded or not is how each of the two was read.
func TestOverlapOfPatternsReadDifferently(t *testing.T) {
	t.Parallel()
	folded := must.Get(Parse("Src/A*", Options{FoldCase: true}))(t)
	for pattern, want := range map[string]bool{"SRC/abc": true, "Src/A*": true, "src/b": false, "s/*": false} {
		require.Equal(t, want, Overlap(folded, mustParse(t, pattern)), pattern)
		require.Equal(t, want, Overlap(mustParse(t, pattern), folded), pattern)
	}
}

// Long literal runs, beside stars and beside each other.
func TestLongRuns(t *testing.T) {
	t.Parallel()
	for _, n := range []int{58, 59, 60, 61, 62, 63, 64, 65, 66, 122, 123, 124, 125, 126, 127, 128, 129, 130} {
		run := strings.Repeat("a", n)
		p := mustParse(t, "*"+run+"*b")
		require.True(t, p.Match(run+"b"), n)
		require.False(t, p.Match(run[1:]+"b"), n)
		require.True(t, Overlap(p, mustParse(t, "a*"+run[1:]+"b")), n)
		require.True(t, Overlap(p, mustParse(t, run+"b")), n)
		require.False(t, Overlap(p, mustParse(t, run[1:]+"b")), n)
		require.False(t, Overlap(p, mustParse(t, "*"+run+"c")), n)
		requireExact(t, mustParse(t, "**/"+strings.Repeat("a/", n/2)+"**/b"), mustParse(t, strings.Repeat("a/", n/2+1)+"b"))
	}
}
