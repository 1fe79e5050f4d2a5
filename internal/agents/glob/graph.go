package glob

import (
	"slices"

	"gated/internal/base/refusal"
)

// node is a place in a pattern after it has read some text of a path.
type node struct {
	edges []edge
	end   bool // the path may end here
}

// edge reads one character of a set and leads to another node.
type edge struct {
	set set
	to  int32
}

// spot identifies a node while the graph is built: a place before an element, in a context. The zero spot is the
// pattern's beginning.
type spot struct {
	at  int32
	ctx context
}

func (s spot) index() int { return int(s.at)*contexts + int(s.ctx) }

// builder makes the graph of a pattern. The graph reads a path with a "/" behind
// it, so that each segment ends with one, and it reads paths alone. Alternatives
// are branches.
type builder struct {
	pattern  string
	elements []element
	fold     bool
	jumps    [][]int32 // from "{" to its alternatives, from "," to behind "}"
	numbers  []int32   // of nodes, by spot; 0 is none, or the first
	seen     []int     // by spot, for how many nodes there were
	spots    []spot    // of nodes
	nodes    []node
	literals map[rune]set
	err      error
}

// build returns the nodes of a pattern, the first of which is its beginning.
func build(pattern string, elements []element, fold bool) ([]node, error) {
	b := &builder{pattern: pattern, elements: elements, fold: fold, jumps: jumps(elements),
		spots: make([]spot, 1, len(elements)+8), literals: map[rune]set{}}
	all := (len(elements) + 1) * contexts
	b.numbers, b.seen = make([]int32, all), make([]int, all)
	for i := 0; i < len(b.spots); i++ { // it grows while spots lead to new ones
		b.nodes = append(b.nodes, node{})
		b.from(&b.nodes[i], b.spots[i])
	}
	if b.err != nil {
		return nil, b.err
	}
	if b.prune(); len(b.nodes[0].edges) == 0 {
		return nil, refusal.New(refusal.BadParams, "the pattern %.80q matches no path at all", pattern).
			WithHint("no path has a segment that is empty, . or ..")
	}
	return b.nodes, nil
}

// prune removes the edges from which no path can end.
func (b *builder) prune() {
	leads := make([]bool, len(b.nodes))
	for more := true; more; {
		more = false
		for i, n := range slices.Backward(b.nodes) {
			if !leads[i] && (n.end || slices.ContainsFunc(n.edges, func(e edge) bool { return leads[e.to] })) {
				leads[i], more = true, true
			}
		}
	}
	for i := range b.nodes {
		b.nodes[i].edges = slices.DeleteFunc(b.nodes[i].edges, func(e edge) bool { return !leads[e.to] })
	}
}

// jumps finds the targets of braces and of the commas between alternatives.
func jumps(elements []element) [][]int32 {
	out := make([][]int32, len(elements))
	var opened [][]int32 // the "{" and commas of each group that is open
	for i, e := range elements {
		switch e.kind {
		case open:
			opened = append(opened, []int32{int32(i)})
			out[i] = []int32{int32(i + 1)}
		case comma:
			group := &opened[len(opened)-1]
			*group = append(*group, int32(i))
			out[(*group)[0]] = append(out[(*group)[0]], int32(i+1))
		case shut:
			for _, at := range opened[len(opened)-1][1:] {
				out[at] = []int32{int32(i + 1)}
			}
			opened = opened[:len(opened)-1]
		}
	}
	return out
}

// read adds an edge that reads one character of a set.
func (b *builder) read(n *node, s set, to spot) {
	n.edges = append(n.edges, edge{s, b.number(to)})
}

// number returns the number of a spot's node. It makes a missing node.
func (b *builder) number(s spot) int32 {
	i := s.index()
	if b.numbers[i] == 0 {
		b.numbers[i] = int32(len(b.spots))
		b.spots = append(b.spots, s)
	}
	return b.numbers[i]
}

// literal returns the set of a literal character.
func (b *builder) literal(r rune) set {
	s, known := b.literals[r]
	if !known {
		s = literalSet(r, b.fold)
		b.literals[r] = s
	}
	return s
}

func (b *builder) refuse(err error) {
	if b.err == nil {
		b.err = err
	}
}
