package hook

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"gated/internal/base/op"
)

// The lines around other agents' words. neutral leaves no angle bracket, so the words cannot contain these lines.
const (
	untrustedOpens = "<<<untrusted-data"
	untrustedEnds  = "untrusted-data>>>"
)

// maxField is how many characters of another agent's field are shown.
const maxField = 300

// word is one line of another agent's words.
type word struct{ name, value string }

// untrusted puts other agents' words, a line each, between two lines that the words cannot contain. A sentence that
// says what they are follows.
func untrusted(fields []word) string {
	var b strings.Builder
	b.WriteString(untrustedOpens + "\n")
	for _, f := range fields {
		b.WriteString(f.name + ": " + neutral(f.value, maxField) + "\n")
	}
	b.WriteString(untrustedEnds + "\n" + wordsUntrusted)
	return b.String()
}

// neutral returns text as a quoted string of one line whose end is clear. It escapes quotes, backslashes, angle
// brackets, backticks, and characters that do not print. It cuts the text after limit characters.
func neutral(s string, limit int) string {
	var b strings.Builder
	b.WriteByte('"')
	n := 0
	for i, r := range s {
		if n++; n > limit {
			b.WriteString(`" ` + wordsCut)
			return b.String()
		}
		if r == utf8.RuneError && !strings.HasPrefix(s[i:], string(utf8.RuneError)) {
			b.WriteString(`\x` + strconv.FormatUint(0x100+uint64(s[i]), 16)[1:])
			continue
		}
		b.WriteString(escaped(r))
	}
	b.WriteByte('"')
	return b.String()
}

// escaped returns a character in printable form.
func escaped(r rune) string {
	switch {
	case strings.ContainsRune("<>`", r):
		return `\x` + strconv.FormatInt(int64(r), 16)
	case op.Hidden(r):
		quoted := strconv.QuoteRuneToASCII(r)
		return quoted[1 : len(quoted)-1]
	case r == '"' || r == '\\':
		return `\` + string(r)
	default:
		return string(r)
	}
}

// bounded returns at most limit characters of one of gated's texts.
func bounded(s string, limit int) string {
	n := 0
	for i := range s {
		if n++; n > limit {
			return s[:i] + " " + wordsCut
		}
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}
