package glob

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/test/must"
)

// mustParse returns a pattern that has to be accepted.
func mustParse(t testing.TB, pattern string) Pattern {
	t.Helper()
	return must.Get(Parse(pattern, Options{}))(t)
}

// worst are pairs at the limits, chosen to make what costs most large: states,
// wildcards that reach all of the other pattern, alternatives, distinct characters.
func worst() map[string][2]string {
	repeat := strings.Repeat
	long := repeat("a", 400)
	deep := repeat("a/", 199)
	distinct := func(from rune, n int) string {
		var b strings.Builder
		for i := range n {
			b.WriteRune(from + rune(i))
		}
		return b.String()
	}
	class := "[!" + distinct(0x4e00, 600) + "]"
	nested := func(inner, after string) string { return repeat("{", 12) + inner + repeat(",}", 12) + after }
	return map[string][2]string{
		"two stars, one run":   {"*" + repeat("a", 4090) + "*b", "*" + repeat("a", 4090) + "*c"},
		"ten stars":            {repeat("*"+long, 10) + "b", repeat("*"+long, 10) + "c"},
		"ten double stars":     {repeat("**/"+deep, 10) + "b", repeat("**/"+deep, 10) + "c"},
		"double stars, path":   {repeat("**/"+deep, 10) + "b", repeat("a/", 2047) + "c"},
		"single stars, path":   {repeat("a/*/", 10) + repeat("a/", 2000) + "b", repeat("a/", 2010) + "c"},
		"alternatives":         {repeat("{a,}", 15) + "**" + repeat("a", 4000) + "b", repeat("{a,}", 15) + "**" + repeat("a", 4000) + "c"},
		"nested":               {nested("a/**/"+repeat("b", 3900), "*b"), nested("a/**/"+repeat("b", 3900), "*c")},
		"distinct characters":  {"*" + distinct(0x4e00, 1350), "*" + distinct(0x4e00, 1350) + "*c"},
		"classes":              {"*" + class + class, class + "*" + class + "a"},
		"the same, at the end": {repeat("**/"+deep, 9) + "b*", repeat("**/"+deep, 9) + "*c"},
	}
}

var typical = [][2]string{
	{"internal/agents/glob/overlap.go", "internal/agents/glob/overlap.go"},
	{"internal/agents/glob/*.go", "internal/agents/glob/overlap.go"},
	{"internal/**/*_test.go", "internal/agents/glob/{overlap,count}_test.go"},
	{"**/*.go", "docs/**"},
	{"src/**/test/*.rs", "src/*/test/[a-m]*"},
	{"internal/**", "docs/**"},
}

func BenchmarkOverlap(b *testing.B) {
	for _, pair := range typical {
		b.Run(pair[0]+" "+pair[1], func(b *testing.B) {
			x, y := mustParse(b, pair[0]), mustParse(b, pair[1])
			b.ReportAllocs()
			for b.Loop() {
				Overlap(x, y)
			}
		})
	}
}

func BenchmarkOverlapWorst(b *testing.B) {
	for name, pair := range worst() {
		b.Run(name, func(b *testing.B) {
			x, y := mustParse(b, pair[0]), mustParse(b, pair[1])
			b.ReportAllocs()
			for b.Loop() {
				Overlap(x, y)
			}
		})
	}
}

func BenchmarkParse(b *testing.B) {
	patterns := map[string]string{}
	for i, pair := range typical {
		patterns[fmt.Sprintf("typical %d", i)] = pair[0]
	}
	for name, pair := range worst() {
		patterns[name] = pair[0]
	}
	for name, text := range patterns {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, err := Parse(text, Options{})
				require.NoError(b, err)
			}
		})
	}
}

func BenchmarkMatchWorst(b *testing.B) {
	p, path := mustParse(b, "*"+strings.Repeat("a", 4090)+"*b"), strings.Repeat("a", 4095)
	for b.Loop() {
		p.Match(path)
	}
}
