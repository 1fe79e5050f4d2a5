package glob

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/refusal"
)

// family is a kind of random patterns, small enough that trying every path of a
// bounded size decides whether two of them overlap.
//
// Why trying them all is exact. Take two expansions without alternatives, with at
// most maxSegments segments that are not "**", each with at most maxTokens tokens
// that are not "*", and a shortest path that both match.
//
//   - A segment of the path that "**" takes in both could be left out, unless it is
//     the only one. So there are at most max(1, 2×maxSegments) segments.
//   - A character of a segment that "*" (or "**") takes in both could be left out,
//     unless that left "", "." or "..", which are no names. What is left of four
//     characters is a name, and of two if no character is ".". So a segment has at
//     most max(2×maxTokens, 3) characters, or max(2×maxTokens, 1) without ".".
//   - All characters that no pattern spells are alike to "*", "?" and classes that
//     spell only characters of the alphabet. So one such character will do; it is
//     the last of the alphabet (and "b", folded, is none of "a" and "A").
//
// Patterns that never have "/" or "**" only match paths of one segment.
type family struct {
	name        string
	alphabet    string // of the paths; the patterns do not spell the last
	fragments   []string
	maxSegments int
	maxTokens   int
	oneSegment  bool
	fold        bool
}

var families = []family{
	{name: "directories", alphabet: "ab", maxSegments: 2, maxTokens: 1,
		fragments: strings.Fields(`a a a * **/ / / / / ? [!a] [a] { { } } , ,`)},
	{name: "names", alphabet: "a.b", maxSegments: 1, maxTokens: 3, oneSegment: true,
		fragments: strings.Fields(`a a . * * ? [!a] [.a] [!.] \. { } ,`)},
	{name: "dots", alphabet: "a.b", maxSegments: 1, maxTokens: 1,
		fragments: strings.Fields(`a a a . . * / / / ? [.] [!a] { } , ./ ** ..`)},
	{name: "case", alphabet: "aAb", maxSegments: 1, maxTokens: 2, oneSegment: true, fold: true,
		fragments: strings.Fields(`a A * ? [!a] [A] [^A] { } ,`)},
}

func (f family) paths() []string {
	longest := max(2*f.maxTokens, 1)
	if strings.Contains(f.alphabet, ".") {
		longest = max(longest, 3)
	}
	var names []string
	for level := []string{""}; longest > 0; longest-- {
		var longer []string
		for _, s := range level {
			for _, c := range f.alphabet {
				longer = append(longer, s+string(c))
			}
		}
		level = longer
		for _, s := range level {
			if s != "." && s != ".." {
				names = append(names, s)
			}
		}
	}
	if f.oneSegment {
		return names
	}
	out, level := names, names
	for range max(1, 2*f.maxSegments) - 1 {
		var longer []string
		for _, s := range level {
			for _, n := range names {
				longer = append(longer, s+"/"+n)
			}
		}
		level, out = longer, append(out, longer...)
	}
	return out
}

// random returns a pattern of the family whose grammar is right.
func (f family) random(rnd *rand.Rand) string {
	for {
		var b strings.Builder
		depth := 0
		for range 1 + rnd.IntN(9) {
			s := f.fragments[rnd.IntN(len(f.fragments))]
			switch {
			case s == "}" && depth == 0, s == "," && depth == 0, s == "{" && depth == 2:
				continue
			case s == "{":
				depth++
			case s == "}":
				depth--
			}
			b.WriteString(s)
		}
		pattern := b.String() + strings.Repeat("}", depth)
		if p, ok := slowRead(pattern, f.fold); !ok || f.small(p) {
			return pattern
		}
	}
}

func (f family) small(p slowPattern) bool {
	for _, e := range p.expansions {
		names := 0
		for _, s := range e {
			if s == slowStars {
				continue
			}
			names++
			tokens := 0
			for rest := s; rest != ""; rest = rest[slowSkip(rest):] {
				if rest[0] != '*' {
					tokens++
				}
			}
			if tokens > f.maxTokens {
				return false
			}
		}
		if names > f.maxSegments {
			return false
		}
	}
	return true
}

// tried is a pattern with the paths that it matches, by trying.
type tried struct {
	Pattern
	matches []uint64
}

// patternsOfFamily is how many patterns of each family are compared, each with
// each: 25,425 pairs, 101,700 in all.
const patternsOfFamily = 225

func TestOverlapIsWhatTryingEveryPathSays(t *testing.T) {
	t.Parallel()
	for _, f := range families {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			rnd := rand.New(rand.NewPCG(4, uint64(len(f.name))))
			paths := f.paths()
			var all []tried
			for len(all) < patternsOfFamily {
				if p, ok := try(t, f, f.random(rnd), paths); ok {
					all = append(all, p)
				}
			}
			overlapping := 0
			for i, a := range all {
				for _, b := range all[i:] {
					common := false
					for k, x := range a.matches {
						common = common || x&b.matches[k] != 0
					}
					if Overlap(a.Pattern, b.Pattern) != common || Overlap(b.Pattern, a.Pattern) != common {
						t.Fatalf("%q and %q: overlap %v", a, b, common)
					}
					if common {
						overlapping++
						require.True(t, related(a.Literal(), b.Literal()), "%q and %q have the prefixes %q and %q", a, b, a.Literal(), b.Literal())
					}
				}
			}
			pairs := len(all) * (len(all) + 1) / 2
			t.Logf("%d paths, %d pairs, %d overlap", len(paths), pairs, overlapping)
			require.Greater(t, overlapping, pairs/20, "the patterns are worth comparing")
			require.Less(t, overlapping, pairs*19/20, "the patterns are worth comparing")
		})
	}
}

// try parses a pattern, and asks of every path whether it matches. It returns
// false for a pattern that is refused, after seeing that it ought to be.
func try(t *testing.T, f family, pattern string, paths []string) (tried, bool) {
	t.Helper()
	p, err := Parse(pattern, Options{FoldCase: f.fold})
	slow, ok := slowRead(pattern, f.fold)
	if !ok {
		require.ErrorIs(t, err, refusal.BadParams, "%q", pattern)
		return tried{}, false
	}
	out := tried{p, make([]uint64, (len(paths)+63)/64)}
	some := false
	for i, path := range paths {
		want := slow.match(path)
		if err == nil && p.Match(path) != want {
			t.Fatalf("%q matches %q: %v", pattern, path, want)
		}
		if want {
			some = true
			out.matches[i>>6] |= 1 << (i & 63)
			if err == nil && !(len(p.Literal()) <= len(path) && related(p.Literal(), fold(path, f.fold))) {
				t.Fatalf("%q has the prefix %q and matches %q", pattern, p.Literal(), path)
			}
		}
	}
	if !some {
		require.ErrorIs(t, err, refusal.BadParams, "%q matches nothing", pattern)
		return tried{}, false
	}
	require.NoError(t, err, "%q", pattern)
	return out, true
}

func fold(path string, fold bool) string {
	if fold {
		return strings.ToLower(path)
	}
	return path
}
