package checkout

import (
	"fmt"
	"os"
	"strings"

	"gated/client/api"
	"gated/internal/agents/glob"
)

// countTo is how many files a pattern may match before it is worth a warning.
const countTo = 10

// Warnings says what a caller may not expect of what it asked for: a text with another reading, patterns that match many
// files, and those that name a directory and so nothing in it. It looks at the file system. show is as for Read.
func Warnings(p api.Place, all []Reading, show func(string) string) []string {
	out := []string{}
	for _, r := range all {
		if r.Note != "" {
			out = append(out, r.Note)
		}
	}
	notCounted := func(err error) []string {
		return append(out, fmt.Sprintf("the files of %s cannot be counted: %s", show(p.Path), show(err.Error())))
	}
	root, err := os.OpenRoot(p.Path)
	if err != nil {
		return notCounted(err)
	}
	defer func() { _ = root.Close() }() // nothing was written
	for _, r := range all {
		for i, g := range r.globs {
			text, err := warning(root, r.Sent[i], g, show)
			if err != nil {
				return notCounted(err)
			}
			if text != "" {
				out = append(out, text)
			}
		}
	}
	return out
}

// warning says what is unexpected about one pattern; empty if nothing is.
func warning(root *os.Root, sent string, g glob.Pattern, show func(string) string) (string, error) {
	if name, plain := plainPath(g); plain { // it is one file at most
		info, err := root.Lstat(name)
		if err != nil || !info.IsDir() {
			return "", nil
		}
		return fmt.Sprintf("%s is a directory: this reserves nothing below it; write %s", show(sent), show(sent+"/")), nil
	}
	n, more, err := glob.Count(Files(root), g, glob.MaxVisited)
	if err != nil || n <= countTo && !more {
		return "", err
	}
	return matchesMany(show(sent), n, more), nil
}

// matchesMany warns of a pattern that matches n files, or more if not all of them were counted.
func matchesMany(pattern string, n int, more bool) string {
	files := "1 file"
	if n != 1 {
		files = fmt.Sprintf("%d files", n)
	}
	switch {
	case !more:
		return pattern + " matches " + files
	case n >= glob.MaxVisited:
		return pattern + " matches more than 20,000 files"
	}
	return fmt.Sprintf("%s matches %s, and may match more: no more than 20,000 entries were looked at, in directories that can be read",
		pattern, files)
}

// plainPath returns the one path that a pattern is, false if it may be several. Where case does not matter, it is one of
// its spellings.
func plainPath(g glob.Pattern) (string, bool) {
	text := g.String()
	if strings.HasSuffix(text, "/") {
		return "", false
	}
	for segment := range strings.SplitSeq(text, "/") {
		if _, plain := literal(segment); !plain {
			return "", false
		}
	}
	return g.Literal(), true
}

// NotLooked is the warning for files that did not answer in time.
func NotLooked(p api.Place, show func(string) string) string {
	return fmt.Sprintf("the files of %s did not answer in time, so nothing was counted", show(p.Path))
}
