package glob

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// OverlapBelow reports whether some path of one scope is matched by two patterns
// of which the second is relative to dir, a directory below that scope: whether
// outer matches dir, "/" and a path that inner matches. dir is a path, spelled as
// it is. The answer is exact and no limit is in the way, for nothing is put in
// front of the pattern: the outer automaton reads dir, and the states that it is
// in then are where the comparison starts.
//
// Each pattern ignores case as it was read. The directory itself is no path of
// the scope in which inner was read, so inner never means it.
func OverlapBelow(outer Pattern, dir string, inner Pattern) bool {
	if outer.strict == nil || inner.strict == nil {
		return false
	}
	a := outer.strict
	now, spare := make([]uint64, a.words), make([]uint64, a.words)
	now[0] = 1
	if !a.advance(now, spare, dir) || !a.advance(now, spare, "/") {
		return false
	}
	return intersectFrom(inner.lax, a, now)
}

// Folded returns text with every character replaced by the one that stands for
// all that are equal to it but for case. Two texts are equal without regard to
// case if their Folded are equal; the Literal of a pattern that ignores case is
// its own Folded.
func Folded(text string) string {
	for i := range len(text) {
		if c := text[i]; 'A' <= c && c <= 'Z' || c >= utf8.RuneSelf {
			return strings.Map(folded, text)
		}
	}
	return text
}

// folded returns the character that stands for r, as spelled has it.
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
