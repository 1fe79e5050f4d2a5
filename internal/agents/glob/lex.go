package glob

import (
	"strings"
	"unicode/utf8"

	"gated/internal/base/refusal"
)

// kind says what an element of a pattern is.
type kind uint8

const (
	literal   kind = iota // one character
	separator             // "/"
	star                  // "*"; a run of more stars is two of them
	anyOne                // "?"
	class                 // "[…]"
	open                  // "{"
	comma                 // "," between alternatives
	shut                  // "}"
	end                   // after the last
)

// element is the smallest part of a pattern with a meaning.
type element struct {
	kind kind
	r    rune   // of a literal
	set  set    // of a class
	text string // its spelling in the pattern
}

// lexer splits a pattern into elements. It counts meanwhile, so that nothing is built from a pattern beyond the limits.
type lexer struct {
	rest      string
	pattern   string
	fold      bool
	out       []element
	tokens    int
	wildcards int
	depth     int  // of open braces
	inRun     bool // of literal characters
}

func lex(pattern string, fold bool) ([]element, error) {
	l := &lexer{rest: pattern, pattern: pattern, fold: fold}
	for l.rest != "" {
		if err := l.next(); err != nil {
			return nil, err
		}
		if l.tokens > MaxTokens {
			return nil, refusal.New(refusal.TooComplex, "the pattern %.80q has more than %d tokens", pattern, MaxTokens).
				WithHint("a run of literal characters, a wildcard and an alternative are one token each: use several patterns")
		}
		if l.wildcards > MaxWildcards {
			return nil, refusal.New(refusal.TooComplex, "the pattern %.80q has more than %d wildcards", pattern, MaxWildcards).
				WithHint("use several patterns")
		}
	}
	if l.depth > 0 {
		return nil, l.refuse("has a { without its }").WithHint(`write \{ for the character`)
	}
	return l.out, nil
}

func (l *lexer) refuse(what string) *refusal.Refusal {
	return refusal.New(refusal.BadParams, "the pattern %.80q %s", l.pattern, what)
}

func (l *lexer) next() error {
	switch l.rest[0] {
	case '*':
		l.wild(star, 1, nil)
		if strings.HasPrefix(l.rest, "*") {
			l.put(element{kind: star}, 1)
		}
		l.rest = strings.TrimLeft(l.rest, "*")
	case '?':
		l.wild(anyOne, 1, nil)
	case '[':
		return l.class()
	case '{':
		l.depth++
		l.alternative(open)
	case ',':
		if l.depth == 0 {
			return l.literal(l.rest[:1])
		}
		l.alternative(comma)
	case '}':
		if l.depth == 0 {
			return l.refuse("has a } without its {").WithHint(`write \} for the character`)
		}
		l.depth--
		l.inRun = false
		l.put(element{kind: shut}, 1)
	case '/':
		l.run()
		l.put(element{kind: separator}, 1)
	default:
		return l.literal(l.rest)
	}
	return nil
}

// put takes n bytes as one element.
func (l *lexer) put(e element, n int) {
	e.text, l.rest = l.rest[:n], l.rest[n:]
	l.out = append(l.out, e)
}

// run counts a literal character; only the first of a run is a token.
func (l *lexer) run() {
	if !l.inRun {
		l.tokens++
	}
	l.inRun = true
}

func (l *lexer) wild(k kind, n int, s set) {
	l.tokens++
	l.wildcards++
	l.inRun = false
	l.put(element{kind: k, set: s}, n)
}

func (l *lexer) alternative(k kind) {
	l.tokens++
	l.inRun = false
	l.put(element{kind: k}, 1)
}

// literal takes the first character of s, which begins what is left.
func (l *lexer) literal(s string) error {
	r, n, err := l.character(s)
	if err != nil {
		return err
	}
	l.run()
	l.put(element{kind: literal, r: r}, n)
	return nil
}

// character reads one character and its length, with the backslash before it.
func (l *lexer) character(s string) (rune, int, error) {
	escaped := 0
	if s[0] == '\\' {
		s, escaped = s[1:], 1
	}
	if s == "" {
		return 0, 0, l.refuse(`ends with a backslash`).WithHint(`write \\ for the character`)
	}
	r, n := utf8.DecodeRuneInString(s)
	if escaped > 0 && r == '/' {
		return 0, 0, l.refuse(`has an escaped /, which no file name can have`)
	}
	return r, n + escaped, nil
}
