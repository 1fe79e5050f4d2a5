package browser_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/test/must"
)

// elsewhere is a text of a page that has another value in a test, because the test is not the
// only user of its machine.
type elsewhere struct{ printed, here string }

// printed is a page as a reader has it. A test takes from it what it types, and at the end it
// has taken all.
type printed struct {
	t      *testing.T
	text   string
	blocks []string        // of lines with an indentation, without it
	taken  map[string]bool // blocks
	rows   []string        // of the table of what can go wrong: what a reader reads
	read   map[string]bool // rows
	here   []elsewhere
}

var (
	indented = regexp.MustCompile(`(?m)(?:^    .*\n)+`)
	indent   = regexp.MustCompile(`(?m)^    `)
	firstRow = regexp.MustCompile(`(?m)^\| ([^|]+) \|`)
)

// readPage reads a page of the repository. Each of the texts that are another one here has to be in
// it, so that no test goes on with a value that the page lost.
func readPage(t *testing.T, path string, here ...elsewhere) *printed {
	t.Helper()
	p := &printed{t: t, text: string(must.Get(os.ReadFile(filepath.Join("..", "..", "..", path)))(t)), taken: map[string]bool{},
		read: map[string]bool{}, here: here}
	for _, e := range here {
		require.Contains(t, p.text, e.printed, "%s has nothing that is another text here", path)
	}
	for _, b := range indented.FindAllString(p.text, -1) {
		p.blocks = append(p.blocks, indent.ReplaceAllString(b, ""))
	}
	_, table, _ := strings.Cut(p.text, "\n|---")
	for _, m := range firstRow.FindAllStringSubmatch(table, -1) {
		p.rows = append(p.rows, m[1])
	}
	return p
}

// local returns a printed text as it is typed here.
func (p *printed) local(text string) string {
	for _, e := range p.here {
		text = strings.ReplaceAll(text, e.printed, e.here)
	}
	return text
}

// block returns the one block of lines that begins with a text.
func (p *printed) block(begins string) string {
	p.t.Helper()
	var found []string
	for _, b := range p.blocks {
		if strings.HasPrefix(b, begins) {
			found = append(found, b)
		}
	}
	require.Len(p.t, found, 1, "blocks that begin with %q", begins)
	p.taken[found[0]] = true
	return p.local(found[0])
}

// inline returns what the text has between backquotes, which begins with a text.
func (p *printed) inline(begins string) string {
	p.t.Helper()
	m := regexp.MustCompile("`(" + regexp.QuoteMeta(begins) + "[^`\n]*)`").FindStringSubmatch(p.text)
	require.NotNil(p.t, m, "nothing between backquotes begins with %q", begins)
	return p.local(m[1])
}

// reads finds the row of the table that has what a program said.
func (p *printed) reads(said string) {
	p.t.Helper()
	for _, row := range p.rows {
		// A sentence begins with a capital letter in a page.
		like := "(?i)" + strings.ReplaceAll(regexp.QuoteMeta(row), "…", ".+")
		if !p.read[row] && regexp.MustCompile(like).MatchString(said) {
			p.read[row] = true
			return
		}
	}
	require.FailNow(p.t, "no row of the table is about it, or one was read twice", "%q", said)
}

// finished checks that all of the page was taken.
func (p *printed) finished() {
	p.t.Helper()
	require.NotEmpty(p.t, p.rows)
	for _, b := range p.blocks {
		require.True(p.t, p.taken[b], "nobody typed:\n%s", b)
	}
	for _, row := range p.rows {
		require.True(p.t, p.read[row], "no program said: %s", row)
	}
}
