package glob

import "strings"

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
