package glob

import (
	"path"
	"slices"
	"strings"

	"gated/internal/base/refusal"
)

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
			return nil, refusal.New(refusal.BadParams, "the pattern %.80q is absolute and not below the scope %q", pattern,
				o.Scope).
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
