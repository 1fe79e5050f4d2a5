package glob

import (
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// span is a range of characters, both ends included.
type span struct{ lo, hi rune }

// set is a set of characters: spans in order that neither overlap nor touch.
type set []span

// invalidByte plus b is the character that stands for a byte b of a path which
// is not UTF-8. It is outside Unicode, so that no pattern can spell it.
//
// Whatever set has one of these has all of them, and U+0001 to U+001F as well:
// it is inSegment or a negated class, and control characters are refused in
// patterns. So two patterns never meet only in bytes that, next to each other,
// would be UTF-8 after all.
const invalidByte = utf8.MaxRune + 1

var (
	// inSegment is what can be in a segment: "?" and "*" read it.
	inSegment = set{{1, '/' - 1}, {'/' + 1, 0xd7ff}, {0xe000, utf8.MaxRune}, {invalidByte + 0x80, invalidByte + 0xff}}
	// never is what a range can span though no segment has it: NUL, the
	// separator, and surrogates, which no UTF-8 is decoded to.
	never = set{{0, 0}, {'/', '/'}, {0xd800, 0xdfff}}

	aDot   = set{{'.', '.'}}
	aSlash = set{{'/', '/'}}
)

// union puts spans in any order into a set.
func union(spans []span) set {
	slices.SortFunc(spans, func(a, b span) int { return int(a.lo) - int(b.lo) })
	var out set
	for _, s := range spans {
		if n := len(out); n > 0 && s.lo <= out[n-1].hi+1 {
			out[n-1].hi = max(out[n-1].hi, s.hi)
		} else {
			out = append(out, s)
		}
	}
	return out
}

func (s set) has(r rune) bool {
	for len(s) > 0 {
		mid := len(s) / 2
		switch {
		case r < s[mid].lo:
			s = s[:mid]
		case r > s[mid].hi:
			s = s[mid+1:]
		default:
			return true
		}
	}
	return false
}

func (s set) intersects(o set) bool {
	for len(s) > 0 && len(o) > 0 {
		switch {
		case s[0].hi < o[0].lo:
			s = s[1:]
		case o[0].hi < s[0].lo:
			o = o[1:]
		default:
			return true
		}
	}
	return false
}

func (s set) minus(o set) set {
	var out set
	for _, x := range s {
		for len(o) > 0 && o[0].hi < x.lo {
			o = o[1:]
		}
		lo := x.lo
		for _, y := range o {
			if y.lo > x.hi {
				break
			}
			if lo < y.lo {
				out = append(out, span{lo, y.lo - 1})
			}
			lo = y.hi + 1
		}
		if lo <= x.hi {
			out = append(out, span{lo, x.hi})
		}
	}
	return out
}

// foldable are the characters that have others equal to them but for case, in
// order.
var foldable = sync.OnceValue(func() []rune {
	var out []rune
	for _, c := range unicode.CaseRanges {
		for r := rune(c.Lo); r <= rune(c.Hi); r++ {
			if all := orbit(r); len(all) > 1 {
				out = append(out, all...)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
})

// orbit returns r and every character that is equal to it but for case.
func orbit(r rune) []rune {
	out := []rune{r}
	for o := unicode.SimpleFold(r); o != r; o = unicode.SimpleFold(o) {
		out = append(out, o)
	}
	return out
}

// literalSet is what a literal character reads.
func literalSet(r rune, fold bool) set {
	if !fold {
		return set{{r, r}}
	}
	return set{{r, r}}.folded()
}

// folded returns s with all that is equal to one of its characters but for case.
func (s set) folded() set {
	spans, all := slices.Clone(s), foldable()
	for _, x := range s {
		from, _ := slices.BinarySearch(all, x.lo)
		for _, r := range all[from:] {
			if r > x.hi {
				break
			}
			for _, o := range orbit(r) {
				spans = append(spans, span{o, o})
			}
		}
	}
	return union(spans)
}

// spelled returns the character that s is when written in a pattern: the only
// one, or the one that stands for it and its other cases.
func (s set) spelled(fold bool) (rune, bool) {
	r := s[0].lo
	if fold {
		return folded(r), slices.Equal(s, literalSet(r, true))
	}
	return r, len(s) == 1 && r == s[0].hi
}

// class reads "[…]" into the set of what it matches.
func (l *lexer) class() error {
	s := l.rest[1:]
	negated := strings.HasPrefix(s, "!") || strings.HasPrefix(s, "^")
	if negated {
		s = s[1:]
	}
	var spans []span
	for first := true; first || !strings.HasPrefix(s, "]"); first = false {
		x, n, err := l.classRange(s, first)
		if err != nil {
			return err
		}
		spans, s = append(spans, x), s[n:]
	}
	given := union(spans)
	if l.fold {
		given = given.folded() // before the negation: [!a] does not match A
	}
	matched := given.minus(never)
	if negated {
		matched = inSegment.minus(given)
	}
	if len(matched) == 0 {
		return l.refuse("has a class that matches no character")
	}
	l.wild(class, len(l.rest)-len(s)+1, matched)
	return nil
}

// classRange reads a character or a range at the beginning of s, and its length.
// "]" stands for itself as the first, "-" as the first or the last.
func (l *lexer) classRange(s string, first bool) (span, int, error) {
	if len(s) > 1 && s[0] == '-' && s[1] != ']' && !first {
		return span{}, 0, l.refuse("has a - inside a class that could be a range or not").
			WithHint(`put it first or last, or write \-`)
	}
	lo, n, err := l.classCharacter(s)
	if err != nil {
		return span{}, 0, err
	}
	if len(s) < n+2 || s[n] != '-' || s[n+1] == ']' {
		return span{lo, lo}, n, nil
	}
	hi, m, err := l.classCharacter(s[n+1:])
	if err != nil {
		return span{}, 0, err
	}
	if hi < lo {
		return span{}, 0, l.refuse("has a range in a class whose ends are the wrong way round")
	}
	return span{lo, hi}, n + 1 + m, nil
}

func (l *lexer) classCharacter(s string) (rune, int, error) {
	switch {
	case s == "":
		return 0, 0, l.refuse("has a [ without its ]").WithHint(`write \[ for the character`)
	case s[0] == '/':
		return 0, 0, l.refuse("has a / between [ and ]").WithHint(`a class is inside one segment; write \[ for the character`)
	case strings.HasPrefix(s, "[:"), strings.HasPrefix(s, "[."), strings.HasPrefix(s, "[="):
		return 0, 0, l.refuse("has a named class, which is not known here").WithHint(`write the ranges out, or \[ for the character`)
	}
	return l.character(s)
}

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
