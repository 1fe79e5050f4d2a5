package op

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxMarks is how many combining marks one letter may carry and still be shown
// as it is. Vietnamese needs two; stacks of them reach into the lines around.
const maxMarks = 2

// Shown returns text that came from elsewhere as it may be printed on a
// terminal: as it is if Shows has nothing against it, else quoted, with
// everything escaped that is not plain ASCII. Text that is in quotes already is
// quoted again. Two different texts are therefore never shown alike.
func Shown(s string) string {
	if Shows(s) && !inQuotes(s) {
		return s
	}
	return strconv.QuoteToASCII(s)
}

// ShownName is Shown for what names a person or a key, where one letter that
// looks like another would name somebody else: all but printable ASCII is escaped.
func ShownName(s string) string {
	if printableASCII(s) {
		return Shown(s)
	}
	return strconv.QuoteToASCII(s)
}

// ShownQuoted is Shown with quotes around the text in any case, for a value in
// the middle of a sentence, which could go on like the sentence.
func ShownQuoted(s string) string {
	if Shows(s) {
		return strconv.Quote(s)
	}
	return strconv.QuoteToASCII(s)
}

// inQuotes reports whether text could pass for what Shown escaped.
func inQuotes(s string) bool {
	return len(s) > 1 && strings.HasPrefix(s, `"`) && strings.HasSuffix(s, `"`)
}

// Shows reports whether a terminal shows text as it is, each character in its
// place: it is valid UTF-8 without a character that is Hidden, and each combining
// mark has a letter, which no more than two of them stand on.
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

// Hidden reports whether a character leaves nothing to see, changes how its
// neighbours look, or moves them on a terminal that knows the bidirectional
// algorithm (UAX #9): controls, every blank but the usual space, invisible
// characters, variation selectors, what Unicode has not assigned, and strong
// right-to-left characters with the digits that go with them (the classes R, AL
// and AN).
func Hidden(r rune) bool {
	switch {
	case r >= 0x20 && r <= 0x7e:
		return false
	case !unicode.IsPrint(r), r == '\u2800', r == '\U00016fe4', r == '\U0001d159': // these three are drawn as nothing
		return true
	}
	return unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector, rightToLeft)
}

// rightToLeft is every block in which a character is right-to-left unless
// Unicode says otherwise (DerivedBidiClass.txt, the defaults R and AL). The table
// therefore holds for what later versions of Unicode put there as well.
var rightToLeft = &unicode.RangeTable{
	R16: []unicode.Range16{{Lo: 0x0590, Hi: 0x08ff, Stride: 1}, {Lo: 0xfb1d, Hi: 0xfdff, Stride: 1}, {Lo: 0xfe70, Hi: 0xfeff, Stride: 1}},
	R32: []unicode.Range32{{Lo: 0x10800, Hi: 0x10fff, Stride: 1}, {Lo: 0x1e800, Hi: 0x1efff, Stride: 1}},
}
