package glob

import "unicode"

// The labels that every automaton has.
const (
	labelAny int32 = iota
	labelNotDot
	labelDot
	labelSlash
	labelAll // any, and "/"
)

var (
	aDot   = set{{'.', '.'}}
	aSlash = set{{'/', '/'}}
	notDot = inSegment.minus(aDot)
	inPath = union(append(set{{'/', '/'}}, inSegment...))
)

// labels are the sets of characters that an automaton's states read, each kept
// once.
type labels struct {
	fold     bool
	sets     []set
	literals map[rune]int32
	classes  map[int32]int32 // by element
	undotted map[int32]int32 // a class's label without ".", -1 for nothing
}

func newLabels(fold bool) *labels {
	return &labels{fold: fold, sets: []set{inSegment, notDot, aDot, aSlash, inPath}, literals: map[rune]int32{'.': labelDot},
		classes: map[int32]int32{}, undotted: map[int32]int32{labelAny: labelNotDot, labelDot: -1}}
}

// of returns the label of the element at a place.
func (l *labels) of(at int32, e *element) int32 {
	switch e.kind {
	case anyOne:
		return labelAny
	case class:
		id, known := l.classes[at]
		if !known {
			id = l.add(e.set)
			l.classes[at] = id
		}
		return id
	}
	id, known := l.literals[e.r]
	if !known {
		s := literalSet(e.r, l.fold)
		id = l.add(s)
		for _, x := range s {
			for r := x.lo; r <= x.hi; r++ {
				l.literals[r] = id // its other cases are the same label
			}
		}
	}
	return id
}

func (l *labels) add(s set) int32 {
	l.sets = append(l.sets, s)
	return int32(len(l.sets) - 1)
}

// withoutDot returns the label of what id reads but for ".", -1 if that is
// nothing.
func (l *labels) withoutDot(id int32) int32 {
	if !l.sets[id].has('.') {
		return id
	}
	rest, known := l.undotted[id]
	if !known {
		rest = -1
		if s := l.sets[id].minus(aDot); len(s) > 0 {
			rest = l.add(s)
		}
		l.undotted[id] = rest
	}
	return rest
}

// literalSet is what a literal character reads.
func literalSet(r rune, fold bool) set {
	if !fold || unicode.SimpleFold(r) == r {
		return set{{r, r}}
	}
	var spans []span
	for _, o := range orbit(r) {
		spans = append(spans, span{o, o})
	}
	return union(spans)
}
