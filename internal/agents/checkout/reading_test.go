package checkout

import (
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gated/client/api"
	"gated/internal/agents/glob"
	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

func asItIs(s string) string { return s }

// covers reports whether what is sent for a text covers a path.
func covers(t require.TestingT, p api.Place, text, path string) bool {
	r, err := Read(p, text, asItIs)
	require.NoError(t, err, text)
	for _, sent := range r.Sent {
		g, err := glob.Parse(sent, glob.Options{Scope: p.Path, FoldCase: p.Fold})
		require.NoError(t, err, sent)
		if g.Match(path) {
			return true
		}
	}
	return false
}

func TestReadOfNamesThatLookLikePatterns(t *testing.T) {
	root := tree(t, "repo/.git/", "repo/app/[slug]/page.tsx", "repo/app/[...all]/", "repo/app/[[...sign-in]]/p", "repo/routes/{-$lang}.tsx", "repo/a,b/{x,y}.go",
		"repo/back\\slash", "repo/[s]", "repo/*", "repo/s[0-9]*", "repo/link -> app/[slug]", "repo/[user-id]")
	p := must.Get(Top(root + "/repo"))(t)
	for text, want := range map[string][]string{
		// What exists is a name, in each segment.
		"app/[slug]/page.tsx": {`app/\[slug]/page.tsx`}, "app/[slug]/*.tsx": {`app/\[slug]/*.tsx`}, "app/[slug]/": {`app/\[slug]/`}, "app/[slug]/**": {`app/\[slug]/**`},
		"app/[slug]/new.tsx": {`app/\[slug]/new.tsx`}, "app/[...all]/new/x": {`app/\[...all]/new/x`}, "app/[[...sign-in]]/p": {`app/\[\[...sign-in]]/p`},
		"./app//[slug]/x": {`./app//\[slug]/x`}, "routes/{-$lang}.tsx": {`routes/\{-$lang\}.tsx`}, "a,b/{x,y}.go": {`a,b/\{x,y\}.go`}, `back\slash`: {`back\\slash`},
		"[s]": {`\[s]`}, "s[0-9]*": {`s\[0-9]\*`}, "[user-id]": {`\[user-id]`},
		root + "/repo/app/[slug]/page.tsx": {`app/\[slug]/page.tsx`}, "link/x": {`app/\[slug]/x`},
		// It does not exist, and may be either.
		"app/[id]/page.tsx": {"app/[id]/page.tsx", `app/\[id]/page.tsx`}, "app/[slug]/[id].tsx": {`app/\[slug]/[id].tsx`, `app/\[slug]/\[id].tsx`},
		"routes/{-$x}.tsx": {"routes/{-$x}.tsx", `routes/\{-$x\}.tsx`}, "app/[id]/**": {"app/[id]/**", `app/\[id]/**`}, "[...x].ts": {"[...x].ts", `\[...x].ts`},
		// It cannot be a pattern, and may be a name.
		"app/[[...new]]/p": {`app/\[\[...new]]/p`}, "[group-id]/x": {`\[group-id]/x`},
		// Only a pattern is written so.
		"src/[0-9].go": {"src/[0-9].go"}, "src/[!a]b": {"src/[!a]b"}, "src/*.{rs,toml}": {"src/*.{rs,toml}"}, "src/[ab]*": {"src/[ab]*"}, "a/{b,c/d}/e": {"a/{b,c/d}/e"},
		"a/{b/c}": {"a/{b/c}"}, "**": {"**"}, "*": {"*"}, "app/?": {"app/?"}, `app/\[slug]/x`: {`app/\[slug]/x`}, "plain/a.go": {"plain/a.go"},
	} {
		r := must.Get(Read(p, text, asItIs))(t, text)
		require.Equal(t, want, r.Sent, text)
		asWritten := len(want) == 1 && (want[0] == text || text == "link/x")
		require.Equal(t, asWritten, r.Note == "", "%s: %s", text, r.Note)
		require.Contains(t, r.Note, map[bool]string{true: want[len(want)-1]}[r.Note != ""])
	}
	for text, code := range map[string]refusal.Code{"[abc": refusal.BadParams, "a/{b": refusal.BadParams, "": refusal.BadParams, "a\nb": refusal.Malformed,
		strings.Repeat("[a]", 11): refusal.TooComplex, strings.Repeat("a", glob.MaxBytes+1): refusal.TooComplex} {
		must.Fail(Read(p, text, asItIs))(t, code, text)
	}
}

// What exists is covered by its own name, whatever characters that has; so is a name of brackets and braces that does not
// exist yet.
func TestANameCoversItself(t *testing.T) {
	root := tree(t, "repo/.git/")
	p := must.Get(Top(root + "/repo"))(t)
	odd := rapid.StringOfN(rapid.SampledFrom([]rune(`ab.[]{}!^-,*?\$()=:é`)), 1, 8, -1)
	tool := rapid.StringMatching(`(\[(\.\.\.)?[a-z]{2,4}\]|\[\[\.\.\.[a-z-]{2,5}\]\]|\{-?\$[a-z]{1,4}\}|[a-z$()]{1,3})(\.tsx)?`)
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOfN(rapid.OneOf(odd, tool), 1, 3).Draw(t, "names")
		name := path.Join(names...)
		if strings.Contains("/"+name+"/", "/../") || name == "." {
			t.Skip("no name")
		}
		full := filepath.Join(p.Path, "there", name)
		if os.MkdirAll(full, 0o755) != nil {
			t.Skip("a file is in the way")
		}
		if g, err := glob.Parse(glob.Quote("there/"+name), glob.Options{}); err != nil || !g.Match("there/"+name) {
			t.Skip("too complex for a pattern")
		}
		require.True(t, covers(t, p, "there/"+name, "there/"+name), "%q", name)
		require.NoError(t, os.RemoveAll(filepath.Join(p.Path, "there")))

		later := path.Join(rapid.SliceOfN(tool, 1, 3).Draw(t, "later")...)
		require.True(t, covers(t, p, later, later), "%q", later)
	})
}

// A pattern that nothing else is called keeps its meaning, also if what it matches exists.
func TestAPatternStaysOne(t *testing.T) {
	root := tree(t, "repo/.git/", "repo/s/x", "repo/l/x")
	p := must.Get(Top(root + "/repo"))(t)
	for text, path := range map[string]string{"[slug]/x": "s/x", "[sl]/x": "l/x", "{s}/x": "s/x", "{s,l}/x": "l/x", "[a-z]/x": "s/x", "?/x": "l/x"} {
		require.True(t, covers(t, p, text, path), text)
	}
}

func TestWarnings(t *testing.T) {
	files := []string{"repo/.git/", "repo/docs/[x]/", "repo/docs/a"}
	for _, name := range strings.Split("a b c d e f g h i j k", " ") {
		files = append(files, "repo/many/"+name)
	}
	p := must.Get(Top(tree(t, files...) + "/repo"))(t)
	for text, want := range map[string][]string{
		"docs/": {}, "docs/a": {}, "none": {}, "docs/*": {}, "many/[a-j]": {},
		"docs":     {"docs is a directory: this reserves nothing below it; write docs/"},
		"many/":    {"many/ matches 11 files"},
		"docs/[x]": {`docs/[x] is read as a name, not as a pattern: docs/\[x]`, `docs/\[x] is a directory: this reserves nothing below it; write docs/\[x]/`},
		"new/[x]":  {`new/[x] may be a name or a pattern: it is read as both, and the name is new/\[x]`},
	} {
		require.Equal(t, want, Warnings(p, []Reading{must.Get(Read(p, text, asItIs))(t)}, asItIs), text)
	}
	r := []Reading{must.Get(Read(p, "**", asItIs))(t)}
	require.NoError(t, os.RemoveAll(p.Path))
	require.Contains(t, strings.Join(Warnings(p, r, asItIs), " "), "cannot be counted")
	require.Equal(t, "x matches more than 20,000 files", matchesMany("x", glob.MaxVisited, true))
	require.Contains(t, matchesMany("x", 3, true), "x matches 3 files, and may match more")
	require.Contains(t, matchesMany("x", 1, true), "x matches 1 file, and may match more")
	name, plain := plainPath(must.Get(glob.Parse(`src/\[a]`, glob.Options{FoldCase: true}))(t))
	require.Equal(t, "src/[a]", name)
	require.True(t, plain)
}
