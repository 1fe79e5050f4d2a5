package glob

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Folded returns text with every character replaced by one that represents all characters equal to it except for case.
// Two texts are equal without case if their Folded are equal. The Literal of a pattern that ignores case is its own
// Folded.
func Folded(text string) string {
	for i := range len(text) {
		if c := text[i]; 'A' <= c && c <= 'Z' || c >= utf8.RuneSelf {
			return strings.Map(folded, text)
		}
	}
	return text
}

// folded returns the character that represents r, as spelled chooses it.
func folded(r rune) rune {
	least, alone := r, true
	for o := unicode.SimpleFold(r); o != r; o = unicode.SimpleFold(o) {
		least, alone = min(least, o), false
	}
	if alone {
		return r
	}
	return unicode.ToLower(least)
}
