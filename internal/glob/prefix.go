package glob

import "strings"

// literalPrefix returns the longest path that every path of the automaton is or
// is below.
//
// It reads on while all that can be read is one character. Where that stops, the
// text so far is a path if every path goes on with "/" or ends there; else it is
// only the beginning of a name.
func (a *automaton) literalPrefix(fold bool) string {
	var b strings.Builder
	now := []int32{0}
	for {
		next := a.after(now)
		r, one := a.spells(next, fold)
		ends := a.endsIn(now)
		switch {
		case len(next) == 0, ends && one && r == '/':
			return b.String()
		case ends || !one:
			text := b.String()
			return text[:max(strings.LastIndexByte(text, '/'), 0)]
		}
		b.WriteRune(r)
		now = next
	}
}

// after returns the states that follow one of the given ones, each once.
func (a *automaton) after(states []int32) []int32 {
	if len(states) == 1 {
		return a.follow[states[0]]
	}
	var out []int32
	seen := map[int32]bool{}
	for _, q := range states {
		for _, n := range a.follow[q] {
			if !seen[n] {
				seen[n] = true
				out = append(out, n)
			}
		}
	}
	return out
}

// spells returns the one character that all the states read, if there is one.
func (a *automaton) spells(states []int32, fold bool) (rune, bool) {
	var first rune
	for i, q := range states {
		r, one := a.sets[a.label[q]].spelled(fold)
		if !one || i > 0 && r != first {
			return 0, false
		}
		first = r
	}
	return first, len(states) > 0
}

func (a *automaton) endsIn(states []int32) bool {
	for _, q := range states {
		if isIn(a.ends, q) {
			return true
		}
	}
	return false
}
