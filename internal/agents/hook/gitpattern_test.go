package hook

import (
	"path"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gated/internal/agents/glob"
	"gated/internal/test/must"
)

func TestPatternsOfPaths(t *testing.T) {
	long := strings.Repeat("x/", 2047) + "yy"
	for _, c := range []struct {
		path      string
		submodule bool
		want      string
	}{
		{"a", false, "a"},
		{"a/b c/d.go", false, "a/b c/d.go"},
		{"a", true, "a/**"},
		{"a*", true, `a\*/**`},
		{"a\x7fb", false, "a[! -~]b"},
		{"a\u202eb", false, "a[! -~]b"},
		{"\xff\xff", true, "[! -~][! -~]/**"},
		{"d/" + strings.Repeat("\n", glob.MaxWildcards), false, "d/" + strings.Repeat("[! -~]", glob.MaxWildcards)},
		{"d/e/" + strings.Repeat("\n", glob.MaxWildcards+1), false, "d/e/**"},
		{"d\n/e/" + strings.Repeat("\n", glob.MaxWildcards+1), false, "d[! -~]/e/**"},
		{strings.Repeat("\n", glob.MaxWildcards+1), false, "**"},
		{long, false, long},
		{long + "z", false, strings.Repeat("x/", 2047) + "**"},
	} {
		require.Equal(t, c.want, change{c.path, c.submodule}.pattern(glob.Options{Scope: "/s"}), "%q", c.path)
	}
}

// TestNoPathIsSkipped: whatever git has, the pattern can be read, and matches.
func TestNoPathIsSkipped(t *testing.T) {
	names := rapid.Custom(func(t *rapid.T) string {
		s := string(rapid.SliceOfN(rapid.Byte(), 1, 20).Draw(t, "bytes"))
		s = strings.Map(func(r rune) rune {
			if r == '/' || r == 0 {
				return -1
			}
			return r
		}, s)
		if s == "" || s == "." || s == ".." {
			s = "x"
		}
		return s
	})
	rapid.Check(t, func(t *rapid.T) {
		name := path.Join(rapid.SliceOfN(names, 1, 6).Draw(t, "names")...)
		o := glob.Options{Scope: "/s", FoldCase: rapid.Bool().Draw(t, "fold")}
		submodule := rapid.Bool().Draw(t, "submodule")
		p := must.Get(glob.Parse(change{name, submodule}.pattern(o), o))(t)
		require.True(t, p.Match(name), "%q of %q", p, name)
		if submodule {
			require.True(t, p.Match(name+"/below"))
		}
	})
}
