package glob

import (
	"math/rand/v2"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"

	"gated/internal/test/must"
)

func TestOverlapBelow(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		outer, dir, inner string
		want              bool
	}{
		{"sub/a.go", "sub", "a.go", true},
		{"sub/a.go", "sub", "b.go", false},
		{"sub/**", "sub", "a.go", true},
		{"sub/", "sub", "**", true},
		{"sub", "sub", "**", false}, // the scope itself is no path of it
		{"**/*.go", "x/sub", "*.go", true},
		{"*/*.go", "x/sub", "*.go", false},
		{"x/*/*.go", "x/sub", "*.go", true},
		{"{x,y}/sub/{a,b}", "x/sub", "{b,c}", true},
		{"{x,y}/sub/{a,b}", "z/sub", "{b,c}", false},
		{"su*/a", "sub", "./a", true},
		{"sub/x", "sub", "./", true},
		{"sub.d/x", "sub", "d/x", false},
		{`s\*b/x`, "s*b", "x", true},
		{`s*b/x`, "s*b", "x", true},
		{"a/.git/x", "a/.git", "[x-z]", true},
		{"other", "sub", "**", false},
	} {
		require.Equal(t, c.want, OverlapBelow(mustParse(t, c.outer), c.dir, mustParse(t, c.inner)), "%+v", c)
	}
	require.False(t, OverlapBelow(Pattern{}, "a", mustParse(t, "**")))
	require.False(t, OverlapBelow(mustParse(t, "**"), "a", Pattern{}))
}

func TestOverlapBelowWhereCaseIsReadDifferently(t *testing.T) {
	t.Parallel()
	folds := func(p string) Pattern { return must.Get(Parse(p, Options{FoldCase: true}))(t) }
	exact := func(p string) Pattern { return mustParse(t, p) }
	require.True(t, OverlapBelow(folds("SUB/A"), "sub", exact("a")))
	require.True(t, OverlapBelow(folds("SUB/A"), "sub", folds("a")))
	require.True(t, OverlapBelow(exact("sub/A"), "sub", folds("a")))
	require.False(t, OverlapBelow(exact("SUB/a"), "sub", folds("a")))
	require.False(t, OverlapBelow(exact("sub/A"), "sub", exact("a")))
}

// What is compared may be at the limits already, on both sides.
func TestOverlapBelowAtTheLimits(t *testing.T) {
	t.Parallel()
	name := strings.Repeat("n", MaxBytes-2*MaxWildcards-4)
	inner := mustParse(t, strings.Repeat("*a", MaxWildcards)+name)
	outer := mustParse(t, "**/*"+strings.Repeat("?a", MaxWildcards-2)+name)
	dir := strings.Repeat("d/", 2000) + "d"
	require.True(t, OverlapBelow(outer, dir, inner))
	require.False(t, OverlapBelow(outer, dir, mustParse(t, strings.Repeat("*a", MaxWildcards)+name+"m")))
}

// It is what trying every path says.
func TestOverlapBelowIsWhatTryingEveryPathSays(t *testing.T) {
	t.Parallel()
	for _, f := range families {
		if f.oneSegment {
			continue
		}
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			rnd := rand.New(rand.NewPCG(9, uint64(len(f.name))))
			paths := f.paths()
			overlapping, n := 0, 0
			for n < 600 {
				outer, errOuter := Parse(f.random(rnd), Options{FoldCase: f.fold})
				inner, errInner := Parse(f.random(rnd), Options{FoldCase: f.fold})
				if errOuter != nil || errInner != nil {
					continue
				}
				n++
				dir := paths[rnd.IntN(len(f.alphabet))]
				want := false
				for _, path := range paths {
					if want = inner.Match(path) && outer.Match(dir+"/"+path); want {
						overlapping++
						break
					}
				}
				require.Equal(t, want, OverlapBelow(outer, dir, inner), "%q, below %q %q", outer, dir, inner)
			}
			require.Greater(t, overlapping, n/20)
			require.Less(t, overlapping, n*19/20)
		})
	}
}

// Whatever is equal but for case has one Folded, and the literal part is it.
func TestFoldedIsHowALiteralIsSpelled(t *testing.T) {
	t.Parallel()
	for _, r := range foldable() {
		require.Equal(t, Folded(string(r)), Folded(string(unicode.SimpleFold(r))), "%U", r)
		require.Equal(t, Folded(string(r)), Folded(Folded(string(r))), "%U", r)
		p := must.Get(Parse(Quote(string(r)), Options{FoldCase: true}))(t, "%U", r)
		require.Equal(t, Folded(string(r)), p.Literal(), "%U", r)
	}
	require.Equal(t, "src/ä1-ß", Folded("SRC/Ä1-ß"))
	require.Equal(t, "kk", Folded("K\u212a"))
	require.Equal(t, "same", Folded("same"))
}
