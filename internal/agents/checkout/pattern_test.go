package checkout

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gated/internal/agents/glob"
	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

func TestPattern(t *testing.T) {
	root := tree(t, "repo/.git/", "repo/src/a.go", "repo/app/[slug]/page", "way -> repo/src", "repo/in -> src", "repo/out -> ../plain",
		"repo/f.go -> src/a.go", "plain/x", "repo/self -> .")
	p := must.Get(Top(root + "/repo"))(t)
	for pattern, want := range map[string]string{
		// Relative ones that lead through no link are the caller's own words.
		"src/a.go": "src/a.go", "./src//a.go": "./src//a.go", "**": "**", "*.go": "*.go", "none/**": "none/**", "src/": "src/",
		"": "", ".": ".", "..": "..", "../x": "../x", "in/../x": "in/../x", `app/\[slug\]/*`: `app/\[slug\]/*`, "{in,src}/x": "{in,src}/x",
		"src/{a,b}/c": "src/{a,b}/c", `src\`: `src\`,
		// What leads through one is where it leads.
		"in/a.go": "src/a.go", "in/**": "src/**", "in/": "src/", "in": "src", "f.go": "src/a.go", "in/new/*.go": "src/new/*.go",
		"./in/*": "src/*", "self/x": "x", "self/": "./", "self": ".", "self/*": "*", `i\n/a`: "src/a",
		// Absolute ones.
		root + "/repo/src/a.go": "src/a.go", root + "/way/*.go": "src/*.go", root + "/way/../f.go": "src/a.go", root + "/repo/**": "**",
		root + "/repo": ".", root + "/repo/": "./", root + "/repo//src//**/x": "src/**/x", root + `/repo/app/\[slug\]/*`: `app/\[slug]/*`,
		root + "/repo/none/x": "none/x", root + "/repo/in/{a,b/c}": "src/{a,b/c}", root + "/repo/src/": "src/",
	} {
		got := must.Get(Pattern(p, pattern))(t, pattern)
		require.Equal(t, want, got, pattern)
	}
	for _, pattern := range []string{"out/x", "out/**", root + "/plain/x", "/", "/etc/passwd", root + "/repo/../plain/*", root + "/repos/x"} {
		_, err := Pattern(p, pattern)
		if pattern == "/" {
			require.NoError(t, err) // it has no name; glob.Parse refuses it
			continue
		}
		require.ErrorIs(t, err, refusal.BadParams, pattern)
		require.NotEmpty(t, refusal.As(err).Hint)
	}
	must.Get(Pattern(p, "/*"))(t)
	got := must.Get(Pattern(p, "/*/x"))(t)
	_, err := glob.Parse(got, glob.Options{Scope: p.Path})
	require.ErrorIs(t, err, refusal.BadParams, "absolute, and not below the scope by its letters")
}

// Where there are no links, the relative and the absolute spelling of a pattern
// are one pattern.
func TestPatternOfBothSpellings(t *testing.T) {
	root := tree(t, "repo/.git/")
	p := must.Get(At(root + "/repo"))(t)
	segment := rapid.SampledFrom([]string{"a", "b*", "**", "[x]y", `\*`, "{c,d/e}", "é", ".", ""})
	rapid.Check(t, func(t *rapid.T) {
		pattern := strings.TrimLeft(strings.Join(rapid.SliceOfN(segment, 1, 5).Draw(t, "pattern"), "/"), "/")
		plain, errPlain := glob.Parse(pattern, glob.Options{Scope: p.Path})
		got, err := Pattern(p, p.Path+"/"+pattern)
		if err != nil {
			t.Fatal(err)
		}
		parsed, errParsed := glob.Parse(got, glob.Options{Scope: p.Path})
		if (errPlain == nil) != (errParsed == nil) && pattern != "" {
			t.Fatalf("%q: %v; %q: %v", pattern, errPlain, got, errParsed)
		}
		name := rapid.SampledFrom([]string{"a", "b", "bb", "xy", "*", "c", "d", "e", "é"})
		path := strings.Join(rapid.SliceOfN(name, 1, 5).Draw(t, "path"), "/")
		if plain.Match(path) != parsed.Match(path) && pattern != "" {
			t.Fatalf("%q and %q do not match the same: %q", pattern, got, path)
		}
	})
}
