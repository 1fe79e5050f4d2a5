package hook

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"gated/internal/op"
)

// The lines between which the words of other agents stand. Neither can be
// written inside: neutral leaves no angle bracket.
const (
	untrustedOpens = "<<<untrusted-data"
	untrustedEnds  = "untrusted-data>>>"
)

// maxField is how much of one field of others' is shown, in characters.
const maxField = 300

// word is one line of what others wrote.
type word struct{ name, value string }

// untrusted wraps what others wrote, a line each, between two lines that it
// cannot hold itself, followed by a sentence that says what it is.
func untrusted(fields []word) string {
	var b strings.Builder
	b.WriteString(untrustedOpens + "\n")
	for _, f := range fields {
		b.WriteString(f.name + ": " + neutral(f.value, maxField) + "\n")
	}
	b.WriteString(untrustedEnds + "\n" + wordsUntrusted)
	return b.String()
}

// neutral returns text as a quoted string of one line, which nobody can take
// for its end: quotes, backslashes, angle brackets, backticks, and whatever does
// not show as it is, are escaped. More than limit characters are cut off.
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

// escaped returns a character as it may be shown.
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

// bounded returns at most limit characters of a text of one's own.
func bounded(s string, limit int) string {
	n := 0
	for i := range s {
		if n++; n > limit {
			return s[:i] + " " + wordsCut
		}
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}
