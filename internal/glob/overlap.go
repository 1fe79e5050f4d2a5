package glob

import (
	"math/bits"
	"strings"
)

// Overlap reports whether some path is matched by both patterns. The answer is
// exact, for paths of any length, and the same for Overlap(b, a). A pattern
// overlaps itself.
//
// It walks the product of two automata, which is the pairs of states that some
// text leads to in both. docs/formats/patterns.md has the bound and what it takes.
func Overlap(a, b Pattern) bool {
	if a.strict == nil || b.strict == nil {
		return false
	}
	if a.fold == b.fold && !related(a.literal, b.literal) {
		return false
	}
	if len(a.strict.label) < len(b.strict.label) { // the shorter one's states are the bits
		a, b = b, a
	}
	return intersect(a.lax, b.strict)
}

// related reports whether one path is the other or above it.
func related(a, b string) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	return a == "" || strings.HasPrefix(b, a) && (len(a) == len(b) || b[len(a)] == '/')
}

// product is a walk over pairs (p, q) of states: p of a, which is lax, q of b,
// which is strict, so that what both read is a path. The q of one p are a row, and
// a row leads to itself and later ones only: one pass over a's states sees every
// pair, 64 at a time.
type product struct {
	a, b  *automaton
	reads [][]uint64 // by label of a: the states of b that read one of its characters
	rows  [][]uint64 // by state of a; nil if nothing leads there, or when it is done
	free  [][]uint64 // done and cleared, for other rows
	open  int        // rows that are not done
	next  []uint64
}

func intersect(a, b *automaton) bool {
	start := make([]uint64, b.words)
	start[0] = 1
	return intersectFrom(a, b, start)
}

// intersectFrom begins with a at its start and b in any of the given states, a
// set that it uses up.
func intersectFrom(a, b *automaton, start []uint64) bool {
	w := b.words
	room := make([]uint64, 3*w)
	p := &product{a: a, b: b, reads: make([][]uint64, len(a.sets)), rows: make([][]uint64, len(a.label)), open: 1,
		free: [][]uint64{room[w : 2*w], room[2*w:]}, next: room[:w]}
	p.rows[0] = start
	for q := 0; p.open > 0; q++ {
		if p.rows[q] != nil && p.follow(int32(q)) {
			return true
		}
	}
	return false
}

// follow ends a row, and reports whether both patterns may end in one of its
// pairs.
func (p *product) follow(row int32) bool {
	now := p.rows[row]
	for _, to := range p.a.follow[row] {
		if to == row {
			p.b.flood(now, p.reading(row))
		}
	}
	if isIn(p.a.ends, row) && p.b.mayEnd(now) {
		return true
	}
	p.b.spread(p.next, now)
	clear(now)
	p.rows[row], p.free, p.open = nil, append(p.free, now), p.open-1
	for _, to := range p.a.follow[row] {
		if to != row {
			p.enter(to)
		}
	}
	return false
}

// enter adds to a row those of the next states that read what the row's state
// reads.
func (p *product) enter(row int32) {
	some, reads, next := uint64(0), p.reading(row), p.next
	reads = reads[:len(next)]
	for i, x := range next {
		some |= x & reads[i]
	}
	if some == 0 {
		return
	}
	if p.rows[row] == nil {
		p.rows[row] = p.take()
	}
	to := p.rows[row][:len(next)]
	for i, x := range next {
		to[i] |= x & reads[i]
	}
}

// take returns an empty row.
func (p *product) take() []uint64 {
	p.open++
	if n := len(p.free); n > 0 {
		row := p.free[n-1]
		p.free = p.free[:n-1]
		return row
	}
	return make([]uint64, p.b.words)
}

// reading returns the states of b that read one of the characters that the row's
// state reads.
func (p *product) reading(row int32) []uint64 {
	label := p.a.label[row]
	if p.reads[label] == nil {
		p.reads[label] = p.b.readingAny(p.a.sets[label])
	}
	return p.reads[label]
}

// readingAny returns the states that read one of the characters.
func (a *automaton) readingAny(s set) []uint64 {
	if len(s) == 1 && s[0].lo == s[0].hi {
		return a.reading(s[0].lo)
	}
	out := make([]uint64, a.words)
	for label, states := range a.having {
		if len(states) > 0 && a.sets[label].intersects(s) {
			mark(out, states)
		}
	}
	return out
}

// flood adds to a set all that follows it while states of reads are entered, any
// number of times.
func (a *automaton) flood(set, reads []uint64) {
	for again := true; again; { // only for a "**" in two words
		again = false
		carry := uint64(0)
		for i := range set {
			x, passed := set[i]|carry&reads[i], uint64(0)
			for {
				x = fill(x, a.run[i]<<1&reads[i])
				z := x &^ a.run[i] &^ passed
				if z == 0 {
					break
				}
				passed |= z
				set[i] = x
				for ; z != 0; z &= z - 1 {
					for _, q := range a.follow[i<<6+bits.TrailingZeros64(z)] {
						if isIn(reads, q) && !isIn(set, q) {
							set[q>>6] |= 1 << (q & 63)
							again = again || int(q>>6) < i
						}
					}
				}
				x = set[i]
			}
			set[i] = x
			carry = x & a.run[i] >> 63
		}
	}
}

// fill adds to x each run of bits in through that begins next to a bit of x.
func fill(x, through uint64) uint64 {
	for shift := 1; shift < 64 && through != 0; shift <<= 1 {
		x |= x << shift & through
		through &= through << shift
	}
	return x
}
