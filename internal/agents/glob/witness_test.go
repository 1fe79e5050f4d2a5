package glob

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

// witness returns a path that both patterns match, found by going through pairs
// of nodes with the texts that lead there, or false if there is none.
func witness(a, b Pattern) (string, bool) {
	type pair struct{ p, q int32 }
	seen := map[pair]string{{0, 0}: ""}
	for queue := []pair{{0, 0}}; len(queue) > 0; queue = queue[1:] {
		at := queue[0]
		if text := seen[at]; text != "" && a.nodes[at.p].end && b.nodes[at.q].end {
			return strings.TrimSuffix(text, "/"), true
		}
		for _, x := range a.nodes[at.p].edges {
			for _, y := range b.nodes[at.q].edges {
				next := pair{x.to, y.to}
				if _, known := seen[next]; known {
					continue
				}
				if r, ok := common(x.set, y.set); ok {
					seen[next] = seen[at] + string(r)
					queue = append(queue, next)
				}
			}
		}
	}
	return "", false
}

// common returns a character that both sets have, a letter if there is one.
func common(s, o set) (rune, bool) {
	for _, r := range "abcxyzABC.-_09" {
		if s.has(r) && o.has(r) {
			return r, true
		}
	}
	for _, x := range s {
		for _, y := range o {
			if lo := max(x.lo, y.lo); lo <= x.hi && lo <= y.hi {
				return lo, true
			}
		}
	}
	return 0, false
}

// requireExact asserts that what Overlap says of two patterns is so: the path
// that shows it is matched by both, as the slow reading has it, and what says that
// there is none says so for the other order too.
func requireExact(t require.TestingT, a, b Pattern) {
	path, met := witness(a, b)
	require.Equal(t, met, Overlap(a, b), "%q and %q, by %q", a, b, path)
	require.Equal(t, met, Overlap(b, a), "%q and %q, by %q", b, a, path)
	if !met {
		return
	}
	for _, p := range []Pattern{a, b} {
		slow, ok := slowRead(p.String(), p.fold)
		require.True(t, ok, "%q", p)
		require.True(t, slow.match(path), "%q matches %q", p, path)
		require.True(t, p.Match(path), "%q matches %q", p, path)
	}
	if a.fold == b.fold {
		require.True(t, related(a.Literal(), b.Literal()), "%q and %q", a.Literal(), b.Literal())
	}
}

// patterns draws patterns of every kind, some with runs that fill more than one
// word of states.
var patterns = rapid.Custom(func(t *rapid.T) string {
	fragment := rapid.SampledFrom([]string{"a", "b", "ab", "A", "é", "src", ".", "..x", "-", "*", "*", "**", "?", "[ab]", "[!a]",
		"[^a-c]", "[a-z]", "[]-]", "[]b-]", `\*`, `\\`, `\{`, "/", "/", "/", "/**/", "./", "{a,b}", "{a,}", "{a/b,c}", "{*,b/}", "{,./}",
		"{{a,b}c,*}", strings.Repeat("ab", 40), strings.Repeat("a/", 70), strings.Repeat("é", 63), "{" + strings.Repeat("a", 64) + ",b}"})
	return strings.Join(rapid.SliceOfN(fragment, 1, 9).Draw(t, "pattern"), "")
})

// parsed draws a pattern that is accepted.
func parsed(t *rapid.T, o Options, label string) Pattern {
	text := patterns.Filter(func(s string) bool {
		_, err := Parse(s, o)
		return err == nil
	}).Draw(t, label)
	return must.Get(Parse(text, o))(t)
}

func TestOverlapIsShownByAPath(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		requireExact(t, parsed(t, Options{FoldCase: rapid.Bool().Draw(t, "fold")}, "a"), parsed(t, Options{FoldCase: rapid.Bool().Draw(t, "fold")}, "b"))
	})
}

func TestAPatternOverlapsItselfAndIsReadBackTheSame(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		o := Options{FoldCase: rapid.Bool().Draw(t, "fold")}
		p := parsed(t, o, "a")
		require.True(t, Overlap(p, p), "%q", p)
		requireExact(t, p, p)
		require.Equal(t, p, must.Get(Parse(p.String(), o))(t))
	})
}

// A path that a pattern matches, quoted, is a pattern that matches that path alone
// and that overlaps the same patterns as the path is matched by.
func TestAPathIsAPattern(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := parsed(t, Options{}, "a")
		path, met := witness(p, p)
		require.True(t, met)
		q, err := Parse(Quote(path), Options{})
		if err != nil { // a path with a character that no pattern can spell
			require.ErrorIs(t, err, refusal.Malformed)
			return
		}
		require.Equal(t, path, q.Literal())
		require.True(t, q.Match(path))
		require.True(t, Overlap(p, q))
		other := parsed(t, Options{}, "b")
		require.Equal(t, other.Match(path), Overlap(other, q), "%q and %q", other, path)
	})
}
