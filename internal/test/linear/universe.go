package linear

import (
	"path"
	"slices"
	"strings"
)

// Scopes are the directories of the universe, relative to its root. The second
// one is inside the first, so that patterns of both can meet.
var Scopes = []string{"", "a"}

// Pattern is one of the universe: in which scope it is written, and which of
// the paths of the universe it matches.
type Pattern struct {
	Scope int // index of Scopes
	Text  string
	paths uint8 // a bit for each
}

// Paths are enough to tell: two patterns below that overlap both match one.
var Paths = []string{"a/1.go", "a/2.go", "a/d/1.go", "b/1.go", "b/2.md", "c"}

// Universe is all patterns that are ever reserved. Which paths each matches is
// written by hand; a test asks the code that knows patterns as well.
var Universe = []Pattern{
	{0, "a/1.go", 0b000001},
	{0, "a/*.go", 0b000011},
	{0, "a/**", 0b000111},
	{0, "**/1.go", 0b001101},
	{0, "b/*", 0b011000},
	{0, "{b/2.md,c}", 0b110000},
	{0, "[ab]/2.*", 0b010010},
	{0, "c", 0b100000},
	{1, "1.go", 0b000001},
	{1, "**", 0b000111},
	{1, "d/*", 0b000100},
	{1, "2.go", 0b000010},
}

// Set is patterns of one scope, a bit for each of the Universe. It is never
// empty where somebody holds it.
type Set uint16

// In returns whether the set has the i-th pattern of the Universe.
func (s Set) In(i int) bool { return s>>i&1 != 0 }

// Scope is the index of the directory in which the set's patterns are written.
func (s Set) Scope() int {
	for i, p := range Universe {
		if s.In(i) {
			return p.Scope
		}
	}
	return 0
}

// Patterns returns the set's patterns as they are written.
func (s Set) Patterns() []string {
	var out []string
	for i, p := range Universe {
		if s.In(i) {
			out = append(out, p.Text)
		}
	}
	return out
}

// SetOf finds the set again of which an answer has the patterns, in whatever
// order. ok is false for anything that is not of the Universe.
func SetOf(scope int, patterns []string) (s Set, ok bool) {
	for _, text := range patterns {
		i := slices.IndexFunc(Universe, func(p Pattern) bool { return p.Scope == scope && p.Text == text })
		if i < 0 {
			return 0, false
		}
		s |= 1 << i
	}
	return s, s != 0
}

// ScopeOf returns which of the Scopes below root a directory is, -1 for none.
func ScopeOf(root, dir string) int {
	rest, ok := strings.CutPrefix(dir, root)
	if !ok {
		return -1
	}
	return slices.Index(Scopes, strings.TrimPrefix(path.Clean("/"+rest), "/"))
}

// Paths returns those of the Paths that the set matches.
func (s Set) Paths() []string {
	var out []string
	for i, p := range Paths {
		if s.paths()>>i&1 != 0 {
			out = append(out, p)
		}
	}
	return out
}

// overlaps reports whether the two match a path in common.
func (s Set) overlaps(o Set) bool { return s.paths()&o.paths() != 0 }

// covers reports whether each pattern of the other set is one of these, or a path
// that one of these matches.
func (s Set) covers(o Set) bool {
	for i, p := range Universe {
		if !o.In(i) || s.In(i) {
			continue
		}
		if !p.plain() || !slices.ContainsFunc(s.each(), func(q Pattern) bool { return q.Scope == p.Scope && p.paths&^q.paths == 0 }) {
			return false
		}
	}
	return true
}

// each returns the patterns of the set.
func (s Set) each() (out []Pattern) {
	for i, p := range Universe {
		if s.In(i) {
			out = append(out, p)
		}
	}
	return out
}

// plain reports whether a pattern is a path.
func (p Pattern) plain() bool { return !strings.ContainsAny(p.Text, "*?[{") }

func (s Set) paths() (p uint8) {
	for i, pattern := range Universe {
		if s.In(i) {
			p |= pattern.paths
		}
	}
	return p
}
