package glob

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// begin returns the nodes of a pattern before anything is read.
func (p Pattern) begin() []int32 {
	if p.nodes == nil {
		return nil
	}
	return []int32{0}
}

// advance returns the nodes that reading text leads to from some, each once. It
// takes its steps from left, and returns none if they are too few.
func (p Pattern) advance(from []int32, text string, left *int64) []int32 {
	now, seen := slices.Clone(from), make([]bool, len(p.nodes))
	var next []int32
	for text != "" && len(now) > 0 && *left >= 0 {
		*left -= int64(len(now))
		r, n := utf8.DecodeRuneInString(text)
		if r == utf8.RuneError && n == 1 {
			r = invalidByte + rune(text[0])
		}
		text, next = text[n:], next[:0]
		for _, i := range now {
			for _, e := range p.nodes[i].edges {
				if !seen[e.to] && e.set.has(r) {
					seen[e.to] = true
					next = append(next, e.to)
				}
			}
		}
		for _, i := range next {
			seen[i] = false
		}
		now, next = next, now
	}
	if *left < 0 {
		return nil
	}
	return now
}

// mayEnd reports whether the path may end at one of the nodes.
func (p Pattern) mayEnd(nodes []int32) bool {
	return slices.ContainsFunc(nodes, func(i int32) bool { return p.nodes[i].end })
}

// literalPrefix reads on while all that can be read is one character. What it
// has read then is a path, or at its end only the beginning of a name.
func (p Pattern) literalPrefix() string {
	var b strings.Builder
	for now := p.begin(); ; {
		r, one := p.spells(now)
		if !one || b.Len() > 0 && p.mayEnd(now) {
			text := b.String()
			return text[:max(strings.LastIndexByte(text, '/'), 0)]
		}
		b.WriteRune(r)
		if edges := p.nodes[now[0]].edges; len(now) == 1 && len(edges) == 1 {
			now[0] = edges[0].to
		} else {
			now = p.advance(now, string(r), unbounded())
		}
	}
}

// spells returns the one character that the nodes read, if there is one.
func (p Pattern) spells(nodes []int32) (first rune, one bool) {
	for _, i := range nodes {
		for _, e := range p.nodes[i].edges {
			r, alone := e.set.spelled(p.fold)
			if !alone || one && r != first {
				return 0, false
			}
			first, one = r, true
		}
	}
	return first, one
}
