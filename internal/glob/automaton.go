package glob

import (
	"math/bits"
	"slices"
	"unicode/utf8"
)

// automaton is a position automaton (Glushkov's): a state is a place in the
// pattern where a character is read, so all ways into a state read the same set
// of characters, its label. State 0 is the start and is entered by nothing. Every
// state can be reached and can reach an end.
//
// States are in the order of the pattern. A state is followed by later ones and
// perhaps itself; only the few states of one "**" in a strict automaton, which are
// next to each other, go round. Sets of states are bits in words of 64, because a
// pattern may have 4,096 of them: in a run of literals each state is followed by
// the next alone, which is a shift.
type automaton struct {
	label  []int32   // of each state; -1 of the start
	follow [][]int32 // in order
	words  int       // in a set of states
	run    []uint64  // states that are followed by the next alone
	ends   []uint64  // states after which the path may end
	sets   []set     // by label
	having [][]int32 // states, by label

	// Of a strict automaton: characters from cuts[i] on and before cuts[i+1] are
	// read by the same states, masks[i*words:(i+1)*words].
	cuts  []rune
	masks []uint64
}

func newAutomaton(states int, sets []set) *automaton {
	words := (states + 63) / 64
	label := make([]int32, states)
	label[0] = -1
	return &automaton{label: label, follow: make([][]int32, states), words: words,
		run: make([]uint64, words), ends: make([]uint64, words), sets: sets, having: make([][]int32, len(sets))}
}

// connect sets what follows a state.
func (a *automaton) connect(state int, next []int32, ends bool) {
	a.follow[state] = next
	if len(next) == 1 && int(next[0]) == state+1 {
		a.run[state>>6] |= 1 << (state & 63)
	}
	if ends {
		a.ends[state>>6] |= 1 << (state & 63)
	}
}

// cut finds which states read which characters.
func (a *automaton) cut() {
	a.cuts = []rune{0}
	for label, states := range a.having {
		if len(states) > 0 {
			for _, s := range a.sets[label] {
				a.cuts = append(a.cuts, s.lo, s.hi+1)
			}
		}
	}
	slices.Sort(a.cuts)
	a.cuts = slices.Compact(a.cuts)
	a.masks = make([]uint64, len(a.cuts)*a.words)
	for label, states := range a.having {
		if len(states) == 0 {
			continue
		}
		for _, s := range a.sets[label] {
			for i, _ := slices.BinarySearch(a.cuts, s.lo); i < len(a.cuts) && a.cuts[i] <= s.hi; i++ {
				mark(a.masks[i*a.words:], states)
			}
		}
	}
}

// mark adds states to a set.
func mark(in []uint64, states []int32) {
	for _, q := range states {
		in[q>>6] |= 1 << (q & 63)
	}
}

// isIn reports whether a state is in a set.
func isIn(set []uint64, q int32) bool { return set[q>>6]>>(q&63)&1 != 0 }

// reading returns the states that read a character.
func (a *automaton) reading(r rune) []uint64 {
	i, exact := slices.BinarySearch(a.cuts, r)
	if !exact {
		i--
	}
	return a.masks[i*a.words : (i+1)*a.words]
}

// spread sets next to what follows the states now.
func (a *automaton) spread(next, now []uint64) {
	carry := uint64(0)
	for i, x := range now {
		y := x & a.run[i]
		next[i] = y<<1 | carry
		carry = y >> 63
	}
	for i, x := range now {
		for z := x &^ a.run[i]; z != 0; z &= z - 1 {
			mark(next, a.follow[i<<6+bits.TrailingZeros64(z)])
		}
	}
}

// advance replaces the states now by those after reading text, and reports
// whether any are left. spare is another set.
func (a *automaton) advance(now, spare []uint64, text string) bool {
	for text != "" {
		r, n := utf8.DecodeRuneInString(text)
		if r == utf8.RuneError && n == 1 {
			r = invalidByte + rune(text[0])
		}
		text = text[n:]
		a.spread(spare, now)
		some := uint64(0)
		for i, m := range a.reading(r) {
			now[i] = spare[i] & m
			some |= now[i]
		}
		if some == 0 {
			return false
		}
	}
	return true
}

// mayEnd reports whether the path may end after one of the states.
func (a *automaton) mayEnd(states []uint64) bool {
	for i, x := range states {
		if x&a.ends[i] != 0 {
			return true
		}
	}
	return false
}

func (a *automaton) match(path string) bool {
	var room [8]uint64 // most patterns have fewer than 256 states
	sets := room[:]
	if len(sets) < 2*a.words {
		sets = make([]uint64, 2*a.words)
	}
	now, spare := sets[:a.words], sets[a.words:2*a.words]
	now[0] = 1
	return a.advance(now, spare, path) && a.mayEnd(now)
}
