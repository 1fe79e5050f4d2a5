package glob

import (
	"path"
	"slices"
	"strings"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// The limits of one pattern. A pattern beyond them is TooComplex.
const (
	MaxBytes     = 4096
	MaxTokens    = 50 // see Parse
	MaxWildcards = 10 // "*", "**", "?" and classes, as written
)

// Options say how a pattern is read.
type Options struct {
	// Scope is the absolute path of the directory that patterns are relative to, with every symlink resolved. An
	// absolute pattern must begin with it, spelled literally. If Scope is empty, every absolute pattern is refused.
	Scope string
	// FoldCase is for file systems that ignore case: characters are equal if
	// Unicode's simple case folding says so.
	FoldCase bool
}

// Pattern is a parsed pattern. It is immutable and safe for concurrent use. The zero value matches nothing and overlaps
// nothing.
type Pattern struct {
	text    string
	literal string
	fold    bool
	nodes   []node // none for the zero value
}

// Parse reads a pattern. It returns
//
//   - TooComplex if it has more than MaxBytes bytes, MaxTokens tokens or
//     MaxWildcards wildcards. A token is a run of literal characters and "/", a
//     wildcard, or an alternative;
//   - Malformed if it is not text that shows as it is (op.CheckText);
//   - BadParams if it is empty, breaks the grammar, is absolute and not below
//     the scope, has a segment "..", names the scope itself, or can match no
//     path at all. For one with alternatives, each combination of them counts.
func Parse(pattern string, o Options) (Pattern, error) {
	if len(pattern) > MaxBytes {
		return Pattern{}, refusal.New(refusal.TooComplex, "a pattern of %d bytes is longer than %d", len(pattern), MaxBytes)
	}
	if err := op.CheckText("the pattern", pattern); err != nil {
		return Pattern{}, err
	}
	elements, err := lex(pattern, o.FoldCase)
	if err != nil {
		return Pattern{}, err
	}
	if elements, err = clean(pattern, elements, o); err != nil {
		return Pattern{}, err
	}
	nodes, err := build(pattern, elements, o.FoldCase)
	if err != nil {
		return Pattern{}, err
	}
	p := Pattern{text: text(elements), fold: o.FoldCase, nodes: nodes}
	p.literal = p.literalPrefix()
	return p, nil
}

// String returns the pattern relative to the scope and cleaned. Parsed again
// with the same options it is a pattern that matches the same paths.
func (p Pattern) String() string { return p.text }

// Literal returns the longest path that every path the pattern matches is or is
// below, "" for the scope itself: "a/b" for "a/b/*.go", "a/b.go" for "a/b.go".
// So if two patterns that were read with the same options overlap, the Literal
// of one is the Literal of the other or above it. With FoldCase it is in lower
// case.
func (p Pattern) Literal() string { return p.literal }

// Match reports whether the pattern matches a path. The path is relative to the
// scope, with "/" between segments and no segment that is empty, "." or ".."; any
// other path is matched by nothing. A byte that is not UTF-8 is a character that
// no pattern can spell: "*", "?" and negated classes match it.
func (p Pattern) Match(path string) bool {
	return p.mayEnd(p.advance(p.begin(), path+"/", unbounded()))
}

// Quote returns the pattern that matches only path.
func Quote(path string) string {
	if !strings.ContainsAny(path, special) {
		return path
	}
	var b strings.Builder
	for _, r := range path {
		if strings.ContainsRune(special, r) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}

// special are the characters with a meaning of their own. A comma has one only inside braces, and Quote's braces are
// literal.
const special = `*?[{}\`

var (
	slash  = element{kind: separator, text: "/"}
	dot    = element{kind: literal, r: '.', text: "."}
	aStar  = element{kind: star, text: "*"}
	within = []element{dot}
)

// clean makes an absolute pattern relative to the scope, drops empty segments
// and ".", and writes "./" as "**". In a pattern with alternatives these depend
// on which is taken, and are left to compile.
func clean(pattern string, elements []element, o Options) ([]element, error) {
	segments := split(elements)
	if len(segments) > 1 && len(segments[0]) == 0 {
		rest, ok := below(segments, o)
		if !ok {
			return nil, refusal.New(refusal.BadParams, "the pattern %.80q is absolute and not below the scope %q",
				pattern, o.Scope).
				WithHint("write it relative to the scope")
		}
		segments = append([][]element{within}, rest...)
	}
	if slices.ContainsFunc(elements, func(e element) bool { return e.kind == open }) {
		return join(segments), nil
	}
	toDirectory := len(segments) > 1 && len(segments[len(segments)-1]) == 0
	segments = slices.DeleteFunc(segments, isNothing)
	switch {
	case len(segments) == 0 && toDirectory:
		return []element{aStar, aStar}, nil
	case len(segments) == 0:
		return nil, namesNothing(pattern)
	case toDirectory:
		segments = append(segments, nil)
	}
	return join(segments), nil
}

func namesNothing(pattern string) error {
	return refusal.New(refusal.BadParams, "the pattern %.80q, or one of its alternatives, is empty or the scope itself",
		pattern).
		WithHint("write ** for everything in the scope")
}

// isNothing reports whether a segment is empty or ".".
func isNothing(segment []element) bool {
	return len(segment) == 0 || len(segment) == 1 && segment[0].kind == literal && segment[0].r == '.'
}

// split cuts elements at each "/" outside braces.
func split(elements []element) [][]element {
	var out [][]element
	depth, from := 0, 0
	for i, e := range elements {
		switch e.kind {
		case open:
			depth++
		case shut:
			depth--
		case separator:
			if depth == 0 {
				out = append(out, elements[from:i])
				from = i + 1
			}
		}
	}
	return append(out, elements[from:])
}

func join(segments [][]element) []element {
	var out []element
	for i, s := range segments {
		if i > 0 {
			out = append(out, slash)
		}
		out = append(out, s...)
	}
	return out
}

// below takes the scope's segments from the beginning of an absolute pattern's.
func below(segments [][]element, o Options) ([][]element, bool) {
	if !path.IsAbs(o.Scope) {
		return nil, false
	}
	segments = segments[1:]
	for name := range strings.SplitSeq(strings.Trim(path.Clean(o.Scope), "/"), "/") {
		if name == "" {
			continue // the scope is the root
		}
		for len(segments) > 0 && isNothing(segments[0]) {
			segments = segments[1:]
		}
		if len(segments) == 0 || !spells(segments[0], name, o.FoldCase) {
			return nil, false
		}
		segments = segments[1:]
	}
	return segments, true
}

// spells reports whether a segment is literal and equal to name.
func spells(segment []element, name string, fold bool) bool {
	runes := []rune(name)
	if len(runes) != len(segment) {
		return false
	}
	for i, e := range segment {
		if e.kind != literal || (e.r != runes[i] && !(fold && literalSet(e.r, true).has(runes[i]))) {
			return false
		}
	}
	return true
}

// text returns elements as a pattern.
func text(elements []element) string {
	var b strings.Builder
	for _, e := range elements {
		b.WriteString(e.text)
	}
	return b.String()
}
