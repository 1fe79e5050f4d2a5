package glob

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"
)

// vectorFile lies beside a checkout, where it is worked on: pairs of patterns from
// the tests of other tools, and what those expect.
var vectorFile = filepath.Join("..", "..", "..", "..", "shared", "data", "glob-overlap.json")

type vector struct {
	A        string `json:"a"`
	B        string `json:"b"`
	Expected bool   `json:"expected"`
	Source   string `json:"source"`
}

// chosen are the rows in which tools differ, and what they are here. The rules
// that say so are named in docs/formats/patterns.md, Choices.
var chosen = map[[2]string]string{
	{"src", "src/main.rs"}:                "apart", // a plain path is that path
	{"a/b/c", "a/b"}:                      "apart",
	{"src/", "src/main.rs"}:               "overlap",
	{"./src/**", "src/**"}:                "overlap",
	{"./src/main.rs", "src/main.rs"}:      "overlap",
	{"src/**/*.rs", "src/main.rs"}:        "overlap",
	{"dir0/**/*.rs", "dir0/main.rs"}:      "overlap",
	{"src/*.{rs,toml}", "src/main.rs"}:    "overlap",
	{"src/*.{rs,toml}", "src/Cargo.toml"}: "overlap",
	{"src/*.{rs,toml}", "src/readme.md"}:  "apart",
	{"a**a", "abcda"}:                     "overlap",
	{`src\auth\**`, "src/auth/login.py"}:  "apart", // a backslash escapes
	{"[abc", "abc"}:                       "refused",
	{"[abc", " [abc "}:                    "refused",
	{"[abc", "[def"}:                      "refused",
	{"", "src/**"}:                        "refused",
	{"src/**", ""}:                        "refused",
	{"", ""}:                              "refused",
}

// outcome says what becomes of a pair here.
func outcome(a, b string) string {
	x, err := Parse(a, Options{})
	y, err2 := Parse(b, Options{})
	switch {
	case err != nil || err2 != nil:
		return "refused"
	case Overlap(x, y):
		return "overlap"
	}
	return "apart"
}

func TestChoices(t *testing.T) {
	t.Parallel()
	for pair, want := range chosen {
		require.Equal(t, want, outcome(pair[0], pair[1]), "%q and %q", pair[0], pair[1])
	}
}

// differing is how many rows of the file we answer in another way than expected
// there: those of chosen that say so.
var differing = map[[2]string]bool{{"src", "src/main.rs"}: true, {`src\auth\**`, "src/auth/login.py"}: true, {"[abc", " [abc "}: true}

func TestPairsOfOtherTools(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(vectorFile)
	if os.IsNotExist(err) {
		return // TestChoices has the rows that matter
	}
	require.NoError(t, err)
	var doc struct {
		Cases []vector `json:"cases"`
	}
	require.NoError(t, json.Unmarshal(text, &doc))
	require.NotEmpty(t, doc.Cases)
	for _, c := range doc.Cases {
		pair := [2]string{c.A, c.B}
		got := outcome(c.A, c.B)
		require.Equal(t, c.Expected != differing[pair], got == "overlap", "%q and %q of %s: %s", c.A, c.B, c.Source, got)
		require.Equal(t, got, outcome(c.B, c.A), "%q and %q", c.B, c.A)
		if got == "refused" || differing[pair] {
			require.Contains(t, chosen, pair)
		}
	}
}
