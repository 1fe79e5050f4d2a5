package strictyaml

import (
	"bytes"
	"fmt"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// Error says what is wrong in a file, and at which place.
type Error struct {
	File         string
	Line, Column int    // from 1; the column counts characters
	Text         string // the line, trimmed and made safe to print
	Msg          string // what is wrong, a sentence without its full stop

	// Key is the key that the program did not ask for; empty for any other error.
	Key string
	// In names the value that holds Key, by the program's name for it; empty for the file itself.
	In string
	// TooLarge says that the file exceeds one of the limits.
	TooLarge bool
}

// Error returns "file:line:column: message, in: the line".
func (e *Error) Error() string {
	s := fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Column, e.Msg)
	if e.Text != "" {
		s += ", in: " + e.Text
	}
	return s
}

// fail keeps the error nearest to the beginning of the file: the walk goes in the order of the program, but people read
// in the order of the file.
func (d *doc) fail(line, column int, format string, args ...any) *Error {
	e := &Error{File: d.file, Line: line, Column: column}
	if d.err == nil || line < d.err.Line || line == d.err.Line && column < d.err.Column {
		e.Msg, e.Text, d.err = fmt.Sprintf(format, args...), d.text(line), e
	}
	return e
}

func (d *doc) failAt(n *yaml.Node, format string, args ...any) *Error {
	return d.fail(n.Line, n.Column, format, args...)
}

// maxText is how many bytes of a wrong line an error shows at most.
const maxText = 120

// text returns a line in printable form: the invisible characters for which a file is refused must not reach a terminal
// in the error.
func (d *doc) text(line int) string {
	if line > len(d.lines) {
		return ""
	}
	s := strings.Trim(string(d.lines[line-1]), " \t\r")
	if len(s) > maxText {
		cut := maxText
		for cut > 0 && !utf8.RuneStart(s[cut]) {
			cut--
		}
		s = s[:cut] + "…"
	}
	if !utf8.ValidString(s) || strings.ContainsFunc(s, unprintable) {
		return strconv.QuoteToASCII(s)
	}
	return s
}

// maxSearch is the largest file, in bytes, that is parsed again to find its wrong line. Each parse takes a few
// milliseconds.
const maxSearch = 64 << 10

var libraryError = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^yaml: (?:line ([0-9]+): )?`)
})

// syntax refuses the file for the library's error, which has its line only in the text, and no column. If its parser
// refuses (not its scanner), that is the line before the surrounding map or list. People need the wrong line itself:
// the last line of the shortest beginning of the file that fails for the same reason.
func (d *doc) syntax(err error) {
	head := libraryError().FindStringSubmatch(err.Error())
	msg := strings.TrimPrefix(err.Error(), head[0])
	line, _ := strconv.Atoi(head[1]) // without a number it is the first line
	if strings.HasPrefix(msg, "did not find expected") {
		line++
		if len(d.src) <= maxSearch {
			line = 1 + sort.Search(len(d.lines)-1, func(n int) bool { return d.breaks(n+1, msg) })
		}
	}
	line = max(1, min(line, len(d.lines)))
	for line > 1 && len(bytes.TrimLeft(d.lines[line-1], " ")) == 0 {
		line--
	}
	src := d.lines[line-1]
	d.fail(line, len(src)-len(bytes.TrimLeft(src, " "))+1, "this is not YAML: %s", msg)
}

// breaks reports whether the first n lines alone fail for that reason.
func (d *doc) breaks(n int, reason string) bool {
	dec := yaml.NewDecoder(bytes.NewReader(bytes.Join(d.lines[:n], []byte{'\n'})))
	var err error
	for range 2 {
		if err == nil {
			err = dec.Decode(new(yaml.Node))
		}
	}
	return err != nil && strings.HasSuffix(err.Error(), reason)
}
