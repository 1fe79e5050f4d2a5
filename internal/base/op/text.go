package op

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"gated/internal/base/refusal"
)

// Limits on what a step may have. They hold at every entry.
const (
	// MaxPayload is the largest payload in bytes.
	MaxPayload = 64 << 10
	// MaxReason is the longest reason in bytes.
	MaxReason = 1024
	// MaxSteps is the most steps a job may have.
	MaxSteps = 64
	// MaxSignatures is the most signatures an envelope may have.
	MaxSignatures = 16
	// MaxLabels is the most bytes, names and values together, in an object of
	// labels. Escaped as JSON they still fit into a payload.
	MaxLabels = 16 << 10
	// MaxInt is the largest magnitude of an integer parameter, 2^53-1. Above it, a
	// JSON reader that uses floats would read another number (RFC 7493, 2.2).
	MaxInt = 1<<53 - 1
	// MaxDepth is the deepest nesting of parameters, the params object being 1.
	MaxDepth = 4
)

// CheckText refuses text that a terminal could show as something else. This is
// invalid UTF-8 and the Unicode classes Cc, Cf, Zl and Zp (controls, zero-width and
// bidirectional marks, line separators). The name of the field, what, is in the
// refusal.
func CheckText(what, s string) error {
	if printableASCII(s) {
		return nil
	}
	if !utf8.ValidString(s) {
		return refusal.New(refusal.Malformed, "%s is not valid UTF-8", what)
	}
	for i, r := range s {
		if unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) {
			return refusal.New(refusal.Malformed,
				"%s has the character %U at byte %d, which does not show on a terminal as it is", what, r, i).
				WithHint("remove control, format and line-separator characters")
		}
	}
	return nil
}

// printableASCII lets almost all texts skip the Unicode tables.
func printableASCII(s string) bool {
	for i := range len(s) {
		if s[i] < 0x20 || s[i] > 0x7e {
			return false
		}
	}
	return true
}

// maxMarks is how many combining marks one letter may have. Vietnamese needs two.
// More marks would cover the lines around.
const maxMarks = 2

// Shown returns text from elsewhere as a terminal may print it. If Shows accepts the
// text, it is unchanged. Otherwise it is quoted, and all characters but plain ASCII
// are escaped. Text that is already in quotes is quoted again, so two different
// texts never look the same.
func Shown(s string) string {
	if Shows(s) && !inQuotes(s) {
		return s
	}
	return strconv.QuoteToASCII(s)
}

// ShownName is Shown for the name of a person or a key. It escapes all but printable
// ASCII, because a letter that looks like another would name somebody else.
func ShownName(s string) string {
	if printableASCII(s) {
		return Shown(s)
	}
	return strconv.QuoteToASCII(s)
}

// ShownQuoted is Shown, always with quotes. It is for a value inside a sentence,
// because the value could otherwise continue the sentence.
func ShownQuoted(s string) string {
	if Shows(s) {
		return strconv.Quote(s)
	}
	return strconv.QuoteToASCII(s)
}

// inQuotes reports whether text could look like text that Shown escaped.
func inQuotes(s string) bool {
	return len(s) > 1 && strings.HasPrefix(s, `"`) && strings.HasSuffix(s, `"`)
}

// Shows reports whether a terminal shows text as it is, each character in its place.
// The text is valid UTF-8 without Hidden characters. Each combining mark has a
// letter, and no letter has more than two marks.
func Shows(s string) bool {
	if printableASCII(s) {
		return true
	}
	if !utf8.ValidString(s) {
		return false
	}
	marks, before := 0, ' '
	for _, r := range s {
		if Hidden(r) {
			return false
		}
		if !unicode.Is(unicode.M, r) {
			marks, before = 0, r
			continue
		}
		if marks++; marks > maxMarks || before == ' ' {
			return false
		}
	}
	return true
}

// Hidden reports whether a character is invisible, or changes or moves its
// neighbours on a terminal with the bidirectional algorithm (UAX #9). These are
// controls, every blank but the usual space, invisible characters, variation
// selectors and what Unicode has not assigned. Strong right-to-left characters and
// their digits (the classes R, AL and AN) are hidden too.
func Hidden(r rune) bool {
	switch {
	case r >= 0x20 && r <= 0x7e:
		return false
	case !unicode.IsPrint(r), r == '\u2800', r == '\U00016fe4', r == '\U0001d159': // terminals draw none of these three
		return true
	}
	return unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector, rightToLeft)
}

// rightToLeft is every block in which a character is right-to-left unless Unicode
// says otherwise (DerivedBidiClass.txt, the defaults R and AL). So the table also
// holds for characters that later versions of Unicode add there.
var rightToLeft = &unicode.RangeTable{
	R16: []unicode.Range16{{Lo: 0x0590, Hi: 0x08ff, Stride: 1}, {Lo: 0xfb1d, Hi: 0xfdff, Stride: 1}, {Lo: 0xfe70, Hi: 0xfeff, Stride: 1}},
	R32: []unicode.Range32{{Lo: 0x10800, Hi: 0x10fff, Stride: 1}, {Lo: 0x1e800, Hi: 0x1efff, Stride: 1}},
}

// ShellWords writes words so that a shell reads them as they are.
func ShellWords(words ...string) string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = w
		if w == "" || strings.ContainsFunc(w, func(r rune) bool {
			return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("/._-=+:@,%", r)
		}) {
			out[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
	}
	return strings.Join(out, " ")
}
