package glob

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// This file is a second reading of docs/formats/patterns.md, as slow and as plain
// as can be: alternatives are expanded, each expansion is cut into segments, and
// matching tries everything. It shares no code with the package. It expects a
// pattern whose grammar is right.

// slowPattern is the expansions of a pattern, each a list of segments.
type slowPattern struct {
	expansions [][]string
	fold       bool
}

const slowStars = "**" // a segment that takes any number of segments

// slowRead returns ok false for what is refused because of what it means.
func slowRead(pattern string, fold bool) (p slowPattern, ok bool) {
	p.fold = fold
	for _, text := range slowExpand(pattern) {
		segments, ok := slowSegments(text)
		if !ok {
			return slowPattern{}, false
		}
		p.expansions = append(p.expansions, segments)
	}
	return p, true
}

// slowSkip returns the length of the escaped character, class or character that
// text begins with.
func slowSkip(text string) int {
	switch text[0] {
	case '\\':
		_, n := utf8.DecodeRuneInString(text[1:])
		return 1 + n
	case '[':
		i := 1
		if text[i] == '!' || text[i] == '^' {
			i++
		}
		for first := true; first || text[i] != ']'; first = false {
			if text[i] == '\\' {
				i++
			}
			_, n := utf8.DecodeRuneInString(text[i:])
			i += n
		}
		return i + 1
	}
	_, n := utf8.DecodeRuneInString(text)
	return n
}

// slowExpand returns every combination of alternatives.
func slowExpand(pattern string) []string {
	depth, from, opened := 0, 0, 0
	var alternatives []string
	for i := 0; i < len(pattern); i += slowSkip(pattern[i:]) {
		switch pattern[i] {
		case '{':
			if depth++; depth == 1 {
				opened, from = i, i+1
			}
		case ',':
			if depth == 1 {
				alternatives = append(alternatives, pattern[from:i])
				from = i + 1
			}
		case '}':
			if depth--; depth > 0 {
				continue
			}
			var out []string
			for _, a := range append(alternatives, pattern[from:i]) {
				for _, inner := range slowExpand(a) {
					for _, rest := range slowExpand(pattern[i+1:]) {
						out = append(out, pattern[:opened]+inner+rest)
					}
				}
			}
			return out
		}
	}
	return []string{pattern}
}

func slowSegments(text string) ([]string, bool) {
	if text == "" || text[0] == '/' {
		return nil, false
	}
	var out []string
	all := strings.Split(text, "/")
	for i, s := range all {
		switch plain := strings.ReplaceAll(s, `\.`, "."); {
		case plain == "..":
			return nil, false
		case s == "" && i == len(all)-1: // "dir/"
			out = append(out, slowStars)
		case s == "" || plain == ".":
		case len(s) > 1 && strings.Trim(s, "*") == "":
			out = append(out, slowStars)
		default:
			out = append(out, s)
		}
	}
	return out, len(out) > 0
}

func (p slowPattern) match(path string) bool {
	segments := strings.Split(path, "/")
	for _, s := range segments {
		if s == "" || s == "." || s == ".." || strings.Contains(s, "\x00") {
			return false
		}
	}
	return slices.ContainsFunc(p.expansions, func(e []string) bool { return slowPath(e, segments, p.fold) })
}

func slowPath(pattern, path []string, fold bool) bool {
	switch {
	case len(pattern) == 0:
		return len(path) == 0
	case pattern[0] == slowStars:
		for ; len(pattern) > 1 && pattern[1] == slowStars; pattern = pattern[1:] {
		}
		return slowPath(pattern[1:], path, fold) || len(path) > 0 && slowPath(pattern, path[1:], fold)
	default:
		return len(path) > 0 && slowName(pattern[0], path[0], fold) && slowPath(pattern[1:], path[1:], fold)
	}
}

func slowName(pattern, name string, fold bool) bool {
	var dead map[[2]int]bool // what was tried in vain, if that could be much
	if strings.Count(pattern, "*") > 3 {
		dead = map[[2]int]bool{}
	}
	return slowRest(pattern, name, fold, dead)
}

func slowRest(pattern, name string, fold bool, dead map[[2]int]bool) bool {
	at := [2]int{len(pattern), len(name)}
	if dead[at] {
		return false
	}
	ok := false
	switch {
	case pattern == "":
		ok = name == ""
	case pattern[0] == '*':
		ok = slowRest(pattern[1:], name, fold, dead) || name != "" && slowRest(pattern, name[slowSkipName(name):], fold, dead)
	case name != "":
		n, r := slowSkip(pattern), rune(-1) // -1 for a byte that is no character
		if utf8.ValidString(name[:slowSkipName(name)]) {
			r, _ = utf8.DecodeRuneInString(name)
		}
		ok = slowOne(pattern[:n], r, fold) && slowRest(pattern[n:], name[slowSkipName(name):], fold, dead)
	}
	if dead != nil && !ok {
		dead[at] = true
	}
	return ok
}

func slowSkipName(name string) int {
	_, n := utf8.DecodeRuneInString(name)
	return n
}

// slowOne matches one character against "?", a class or a character.
func slowOne(pattern string, r rune, fold bool) bool {
	switch pattern[0] {
	case '?':
		return true
	case '[':
		body := []rune(pattern[1 : len(pattern)-1])
		negated := body[0] == '!' || body[0] == '^'
		if negated {
			body = body[1:]
		}
		return slowClass(body, r, fold) != negated
	}
	want, _ := utf8.DecodeRuneInString(strings.TrimPrefix(pattern, `\`))
	return slowIn(want, want, r, fold)
}

func slowClass(body []rune, r rune, fold bool) bool {
	take := func() rune {
		if body[0] == '\\' {
			body = body[1:]
		}
		c := body[0]
		body = body[1:]
		return c
	}
	for len(body) > 0 {
		lo := take()
		hi := lo
		if len(body) > 1 && body[0] == '-' {
			body = body[1:]
			hi = take()
		}
		if slowIn(lo, hi, r, fold) {
			return true
		}
	}
	return false
}

func slowIn(lo, hi, r rune, fold bool) bool {
	if lo <= r && r <= hi {
		return true
	}
	if fold && r >= 0 {
		for o := unicode.SimpleFold(r); o != r; o = unicode.SimpleFold(o) {
			if lo <= o && o <= hi {
				return true
			}
		}
	}
	return false
}
