package glob

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/test/must"
)

// inCode finds what a cell of a table has in backticks.
var inCode = regexp.MustCompile("`([^`]+)`")

func quoted(cell string) (out []string) {
	for _, m := range inCode.FindAllStringSubmatch(cell, -1) {
		out = append(out, m[1])
	}
	return out
}

// The examples of docs/formats/patterns.md are so.
func TestExamplesOfTheDocument(t *testing.T) {
	t.Parallel()
	text := must.Get(os.ReadFile(filepath.Join("..", "..", "..", "docs", "formats", "patterns.md")))(t)
	_, examples, found := strings.Cut(string(text), "\n## Examples\n")
	require.True(t, found)
	examples, _, found = strings.Cut(examples, "\n## ")
	require.True(t, found)
	matched, compared := 0, 0
	for line := range strings.Lines(examples) {
		cells := strings.Split(line, " | ")
		if len(cells) != 3 || !strings.HasPrefix(line, "| `") {
			continue
		}
		patterns := quoted(cells[0])
		switch {
		case cells[1] == "yes" || cells[1] == "no":
			compared++
			a, b := mustParse(t, patterns[0]), mustParse(t, patterns[1])
			require.Equal(t, cells[1] == "yes", Overlap(a, b), line)
			if cells[1] == "yes" {
				path := quoted(cells[2])[0]
				require.True(t, a.Match(path) && b.Match(path), line)
			}
		default:
			for _, p := range patterns {
				for _, path := range quoted(cells[1]) {
					matched++
					require.True(t, mustParse(t, p).Match(path), "%q matches %q", p, path)
				}
				for _, path := range quoted(cells[2]) {
					matched++
					require.False(t, mustParse(t, p).Match(path), "%q does not match %q", p, path)
				}
			}
		}
	}
	require.Greater(t, matched, 25)
	require.Greater(t, compared, 5)
}
