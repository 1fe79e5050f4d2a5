package strictyaml

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Error says what is wrong with a file and where.
type Error struct {
	File         string
	Line, Column int    // from 1; the column counts characters
	Text         string // the line, trimmed and made safe to print
	Msg          string // what is wrong, a sentence without its full stop

	// Key is the key that nobody asked for; empty where that is not the error.
	Key string
	// In names the value that holds Key, as the program named it; empty for the
	// file itself.
	In string
	// TooLarge is set where the file goes beyond one of the limits.
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

func (e *Error) before(o *Error) bool {
	if e.Line != o.Line {
		return e.Line < o.Line
	}
	return e.Column < o.Column
}

// maxText is the most of an offending line that is shown, in bytes.
const maxText = 120

// text returns a line as it may be shown: a file that is refused for its
// invisible characters must not send them to a terminal by way of the error.
func (d *doc) text(line int) string {
	b, more := bytes.TrimLeft(d.line(line), " \t"), ""
	if len(b) > maxText {
		cut := maxText
		for cut > 0 && !utf8.RuneStart(b[cut]) {
			cut--
		}
		b, more = b[:cut], "…"
	}
	s := strings.TrimRight(string(b), " \t\r") + more
	if !utf8.ValidString(s) || strings.ContainsFunc(s, unprintable) {
		return strconv.QuoteToASCII(s)
	}
	return s
}
