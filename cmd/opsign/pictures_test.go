package main

import (
	"encoding/xml"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"gated/internal/test/must"
)

// pictures are the screenshots that README and the guides show as pictures.
var pictures = map[string]string{
	"tour":   "A guest is destroyed after its operator signed that, and brought back",
	"review": "opsign review shows a request, and what goes and stays",
}

// TestPictures compares the pictures with the screenshots. TestScreens compares those with what the programs show, and makes
// both anew.
func TestPictures(t *testing.T) {
	for name, title := range pictures {
		want := picture(title, string(must.Get(os.ReadFile(filepath.Join(screensDir, name+".txt")))(t)))
		got := must.Get(os.ReadFile(filepath.Join(screensDir, name+".svg")))(t)
		require.Equal(t, want, string(got), howToWrite)
		require.NoError(t, xml.Unmarshal([]byte(want), new(struct{})))
	}
}

// headline is a line that says what would happen.
var headline = regexp.MustCompile(`^[A-Z]{3,} `)

// picture draws a screen as an SVG of its text, in which each character has the same width in every font.
func picture(title, screen string) string {
	const wide, high, left, top = 8.4, 19, 16, 30
	lines := strings.Split(strings.TrimRight(screen, "\n"), "\n")
	var b strings.Builder
	height := top + high*len(lines)
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="704" height="%d" viewBox="0 0 704 %[1]d" role="img"><title>%s</title>
<rect width="704" height="%[1]d" rx="6" fill="#14171c"/>
<g font-family="ui-monospace, DejaVu Sans Mono, Menlo, Consolas, monospace" font-size="14" fill="#d6d9de" xml:space="preserve">
`, height, title)
	for i, line := range lines {
		look := ""
		switch {
		case strings.HasPrefix(line, "$ "):
			look = ` fill="#8fd18f" font-weight="bold"`
		case headline.MatchString(line):
			look = ` fill="#ffffff" font-weight="bold"`
		case line == "":
			continue
		}
		var text strings.Builder
		_ = xml.EscapeText(&text, []byte(line)) // a Builder takes everything
		fmt.Fprintf(&b, "<text x=\"%d\" y=\"%d\" textLength=\"%.1f\"%s>%s</text>\n", left, top+high*i, wide*float64(utf8.RuneCountInString(line)), look, text.String())
	}
	return b.String() + "</g>\n</svg>\n"
}
