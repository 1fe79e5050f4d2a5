package op

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

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
