package steer

import (
	"path/filepath"
	"slices"
	"strings"
)

// Rule says for which commands there is an operation of gated.
type Rule struct {
	Patterns []Pattern // one of them has to match
	// Below is a directory with one directory for each guest, absolute; empty if the rule is about patterns alone. One
	// of the command's words then has to be a path of a guest's directory, of something in it, or above it.
	Below string
}

// GuestHole is the name that a rule with a directory binds to the name of the guest's directory.
const GuestHole = "guest"

// Matched is a rule's match.
type Matched struct {
	Pattern Pattern
	Bound   map[string]Word // by the names of holes; a word that is not known may be among them
}

// Match matches a command. real returns the path of a file without symbolic links, or the path itself.
func (r Rule) Match(c Command, real func(string) string) (Matched, bool) {
	for _, p := range r.Patterns {
		bound, ok := p.Match(c.Words)
		if !ok {
			continue
		}
		if r.Below == "" {
			return Matched{p, bound}, true
		}
		if guest, ok := r.guest(c, real); ok {
			bound[GuestHole] = guest
			return Matched{p, bound}, true
		}
	}
	return Matched{}, false
}

// places returns the words of a command that may be paths of what it takes away.
func places(words []Word) []Word {
	name, words := base(words[0]), words[1:]
	switch name {
	case "mv": // what it moves, and not where to
		into := func(w Word) bool {
			return strings.HasPrefix(string(w), "-t") || strings.HasPrefix(string(w), "--target")
		}
		if len(words) > 0 && !slices.ContainsFunc(words, into) {
			return words[:len(words)-1]
		}
	case "rsync": // where to
		if i := last(words); i >= 0 {
			return words[i : i+1]
		}
	case "find": // where it stands, if no path is named
		for len(words) > 0 && slices.Contains([]Word{"-L", "-H", "-P"}, words[0]) {
			words = words[1:]
		}
		if last(words[:min(1, len(words))]) < 0 || words[0] == "!" || words[0] == "(" {
			return append([]Word{"."}, words...)
		}
	case "git": // the same
		if i := slices.Index(words, "clean"); i >= 0 {
			words = slices.Delete(slices.Clone(words), i, i+1)
			if last(words[i:]) < 0 {
				words = append(words, ".")
			}
		}
	}
	return words
}

// last returns the place of the last word that is no option, -1 if there is none.
func last(words []Word) int {
	for i := len(words) - 1; i >= 0; i-- {
		if words[i] == "" || words[i][0] != '-' {
			return i
		}
	}
	return -1
}

// guest returns the one guest whose directory a command names. It returns an unknown word if the command names several,
// or a directory above.
func (r Rule) guest(c Command, real func(string) string) (Word, bool) {
	found, one := false, Word("")
	for _, w := range places(c.Words) {
		path := string(w)
		switch {
		case path == "" || path[0] == '-' || path[0] == Any[0]:
			continue
		case path[0] != '/' && c.Dir == "":
			continue
		case path[0] != '/':
			path = c.Dir + "/" + path
		}
		places := []string{filepath.Clean(path)}
		if Word(path).Known() {
			places = append(places, real(path))
		}
		for _, at := range places {
			guest, ok := below(at, r.Below)
			switch {
			case !ok:
			case one == "" || one == guest:
				one = guest
			default:
				one = Any
			}
			found = found || ok
		}
	}
	if !one.Known() {
		one = Any
	}
	return one, found
}

// below reports whether a path is at, in or above the directories in dir, and in which of them.
func below(path, dir string) (Word, bool) {
	have, want := components(path), components(dir)
	for i, c := range have {
		switch {
		case i == len(want):
			return Word(c), true
		case strings.Contains(c, Any):
			return Any, false // it may be anywhere
		case !globMatches(c, want[i], Glob):
			return Any, false
		}
	}
	return Any, true
}

func components(path string) []string {
	return strings.FieldsFunc(path, func(r rune) bool { return r == '/' })
}
