package glob

import (
	"cmp"
	"slices"

	"gated/internal/op"
)

// node is a place in a pattern: before an element, in a context.
type node struct {
	at  int32
	ctx context
}

// place is a node that can be reached, and what can come next.
type place struct {
	node
	done    bool
	ends    bool    // the path may end here
	reads   []int32 // numbers of reads, each once
	entered int32   // the number of a read that leads here, -1 for none
	other   int32   // the next place before the same element, -1 for none
}

// read is a state of the automaton while it is built: a set of characters that
// is read, and the place after it.
type read struct {
	label int32
	to    int32 // a place
	other int32 // the next read that leads there, -1 for none
}

// compiler turns elements into an automaton. It goes through the places that can
// be reached, each once.
type compiler struct {
	pattern  string
	elements []element
	jumps    map[int32][]int32 // from "{" to its alternatives, from "," to behind "}"
	labels   *labels
	lax      bool // see laxly
	places   []place
	firsts   []int32 // by element, a place, -1 for none
	all      []read
	room     []int32 // for lists
	idle     []*next
	err      error
}

// compile returns the two automata of a pattern. The strict one reads the paths
// that the pattern matches. The lax one is smaller: it also reads text that is no
// path, such as "a//b", so it is only good for paths.
func compile(pattern string, elements []element, fold bool) (strict, lax *automaton, err error) {
	kept, forward := newLabels(fold), jumps(elements)
	build := func(lax bool) (*automaton, error) {
		c := &compiler{pattern: pattern, elements: elements, jumps: forward, labels: kept, lax: lax,
			firsts: slices.Repeat([]int32{-1}, len(elements)+1), places: make([]place, 0, 2*len(elements)+8),
			all: make([]read, 0, len(elements)+8)}
		a := c.assemble()
		return a, c.err
	}
	if strict, err = build(false); err != nil {
		return nil, nil, err
	}
	if len(strict.label) == 1 {
		return nil, nil, op.Refuse(op.BadParams, "the pattern %.80q matches no path at all", pattern).
			WithHint("no path has a segment that is empty, . or ..")
	}
	lax, err = build(true)
	return strict, lax, err
}

// assemble goes through what can be reached and numbers it in the pattern's order.
func (c *compiler) assemble() *automaton {
	first := c.from(node{0, begin})
	for i := 0; i < len(c.all); i++ { // it grows: from finds more
		c.from(c.places[c.all[i].to].node)
	}
	if c.err != nil {
		return nil
	}
	order := make([]int32, len(c.all))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortFunc(order, c.compare)
	order, number := c.living(order)
	a := newAutomaton(len(order)+1, c.labels.sets)
	a.connect(0, c.following(first, number), c.places[first].ends)
	for i, r := range order {
		label := c.all[r].label
		a.label[i+1] = label
		a.having[label] = append(a.having[label], int32(i+1))
		to := c.all[r].to
		a.connect(i+1, c.following(to, number), c.places[to].ends)
	}
	return a
}

// following returns the numbers of the reads of a place.
func (c *compiler) following(i int32, number []int32) []int32 {
	out := c.keep(c.places[i].reads)
	for k, r := range out {
		out[k] = number[r]
	}
	slices.Sort(out)
	return slices.DeleteFunc(out, func(n int32) bool { return n == 0 })
}

// compare orders reads as the pattern has them. Of those that lead to one place,
// what is read again and again there is the last.
func (c *compiler) compare(i, j int32) int {
	m, n := &c.places[c.all[i].to], &c.places[c.all[j].to]
	if m == n {
		x, y := 0, 0
		if slices.Contains(m.reads, i) {
			x = 1
		}
		if slices.Contains(m.reads, j) {
			y = 1
		}
		return cmp.Or(cmp.Compare(x, y), cmp.Compare(c.all[i].label, c.all[j].label))
	}
	return cmp.Or(cmp.Compare(m.at, n.at), cmp.Compare(m.ctx, n.ctx))
}

// living returns those of the reads, in the same order, after which the path can
// come to an end, and their numbers from 1; others have 0. What leads back, in the
// loops of "**", also leads on, so that one pass from the end sees all.
func (c *compiler) living(order []int32) (living, number []int32) {
	number = make([]int32, len(c.all))
	for _, r := range slices.Backward(order) {
		to := &c.places[c.all[r].to]
		if to.ends || slices.ContainsFunc(to.reads, func(x int32) bool { return number[x] != 0 }) {
			number[r] = 1
		}
	}
	living = slices.DeleteFunc(order, func(r int32) bool { return number[r] == 0 })
	for i, r := range living {
		number[r] = int32(i + 1)
	}
	return living, number
}

// jumps finds where braces and the commas between alternatives lead.
func jumps(elements []element) map[int32][]int32 {
	out := map[int32][]int32{}
	var opened []int32
	commas := map[int32][]int32{} // by "{"
	for i, e := range elements {
		at, after := int32(i), int32(i+1)
		switch e.kind {
		case open:
			opened = append(opened, at)
			out[at] = []int32{after}
		case comma:
			o := opened[len(opened)-1]
			commas[o] = append(commas[o], at)
			out[o] = append(out[o], after)
		case shut:
			o := opened[len(opened)-1]
			opened = opened[:len(opened)-1]
			for _, k := range commas[o] {
				out[k] = []int32{after}
			}
		}
	}
	return out
}

// find returns the number of the place at n.
func (c *compiler) find(n node) int32 {
	for i := c.firsts[n.at]; i >= 0; i = c.places[i].other {
		if c.places[i].ctx == n.ctx {
			return i
		}
	}
	c.places = append(c.places, place{node: n, entered: -1, other: c.firsts[n.at]})
	c.firsts[n.at] = int32(len(c.places) - 1)
	return c.firsts[n.at]
}

// next is what is being found out about a place. It is used again for others.
type next struct {
	ends  bool
	reads []int32
}

func (c *compiler) borrow() *next {
	n := len(c.idle)
	if n == 0 {
		return &next{}
	}
	o := c.idle[n-1]
	c.idle = c.idle[:n-1]
	return o
}

func (c *compiler) giveBack(o *next) {
	o.ends, o.reads = false, o.reads[:0]
	c.idle = append(c.idle, o)
}

// on adds what can come next at another place, which is reached by reading
// nothing.
func (c *compiler) on(o *next, n node) {
	p := &c.places[c.from(n)]
	o.ends = o.ends || p.ends
	for _, r := range p.reads {
		o.add(r)
	}
}

// add adds r if it is new. The lists are no longer than a pattern has tokens, but
// for a factor.
func (o *next) add(r int32) {
	if !slices.Contains(o.reads, r) {
		o.reads = append(o.reads, r)
	}
}

// read adds the reading of a label that leads to a node.
func (c *compiler) read(o *next, label int32, n node) {
	to := c.find(n)
	for r := c.places[to].entered; r >= 0; r = c.all[r].other {
		if c.all[r].label == label {
			o.add(r)
			return
		}
	}
	r := int32(len(c.all))
	c.all = append(c.all, read{label, to, c.places[to].entered})
	c.places[to].entered = r
	o.add(r)
}

// keep copies a list to where lists are kept together.
func (c *compiler) keep(list []int32) []int32 {
	if cap(c.room)-len(c.room) < len(list) {
		c.room = make([]int32, 0, max(2*len(c.elements), len(list)))
	}
	n := len(c.room)
	c.room = append(c.room, list...)
	return c.room[n:len(c.room):len(c.room)]
}

func (c *compiler) refuse(err error) {
	if c.err == nil {
		c.err = err
	}
}
