package glob

import (
	"errors"
	"io"
	"io/fs"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"gated/internal/base/refusal"
)

// Overlap reports whether some path matches both patterns. The answer is exact, for paths of any length, and the same
// for Overlap(b, a). A pattern overlaps itself.
func Overlap(a, b Pattern) bool { return OverlapBelow(a, "", b) }

// OverlapBelow reports whether some path of one scope is matched by two patterns
// of which the second is relative to dir, a directory below that scope: whether
// outer matches dir, "/" and a path that inner matches. dir is a path, spelled as
// it is, or "" for the scope itself. The answer is exact and no limit is in the
// way, for nothing is put in front of the pattern: the outer pattern reads dir, and
// the comparison starts where that leads.
//
// Each pattern ignores case as it was read. The directory itself is no path of
// the scope in which inner was read, so inner never means it.
func OverlapBelow(outer Pattern, dir string, inner Pattern) bool {
	overlap, _ := OverlapWithin(outer, dir, inner, unbounded())
	return overlap
}

// OverlapWithin is OverlapBelow with a bound on its work. It takes its steps from left; known is false if they did not
// suffice. A step compares a pair of characters and takes some 10 ns.
func OverlapWithin(outer Pattern, dir string, inner Pattern, left *int64) (overlap, known bool) {
	if outer.nodes == nil || inner.nodes == nil {
		return false, true
	}
	from := outer.begin()
	if dir != "" {
		from = outer.advance(from, dir+"/", left)
	} else if outer.fold == inner.fold && !related(outer.literal, inner.literal) {
		return false, true
	}
	return meet(outer, from, inner, left)
}

func unbounded() *int64 {
	left := int64(math.MaxInt64)
	return &left
}

// related reports whether one path is the other or above it.
func related(a, b string) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	return a == "" || strings.HasPrefix(b, a) && (len(a) == len(b) || b[len(a)] == '/')
}

// meet walks the pairs of nodes that some text leads to, from some nodes of a and
// the first of b, and looks at each pair once.
func meet(a Pattern, from []int32, b Pattern, left *int64) (overlap, known bool) {
	type pair struct{ a, b int32 }
	var room [32]pair
	todo, width := room[:0], len(b.nodes)
	for _, i := range from {
		todo = append(todo, pair{i, 0})
	}
	seen := make([]uint64, len(a.nodes)*width/64+1)
	*left -= int64(len(seen) / 8)
	for len(todo) > 0 && *left >= 0 {
		at := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, x := range a.nodes[at.a].edges {
			for _, y := range b.nodes[at.b].edges {
				*left--
				bit := int(x.to)*width + int(y.to)
				if seen[bit>>6]>>(bit&63)&1 != 0 || !x.set.intersects(y.set) {
					continue
				}
				if a.nodes[x.to].end && b.nodes[y.to].end {
					return true, true
				}
				seen[bit>>6] |= 1 << (bit & 63)
				todo = append(todo, pair{x.to, y.to})
			}
		}
	}
	return false, *left >= 0
}

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

// MaxVisited is how many directory entries Count looks at.
const MaxVisited = 20_000

// readBatch is how many entries are read at once, so that one huge directory is
// not read to its end.
const readBatch = 256

// Count counts the files of a scope that the pattern matches: every entry except directories. It reads only directories
// that the pattern could match something in, and follows no symlink; root should be that of an os.Root, which ensures
// this even if another process changes the tree.
//
// It stops at limit files or MaxVisited entries; more then says that there may be more than n. It says so too if a
// directory below cannot be read. An error is one of the scope's own directory.
func Count(root fs.FS, p Pattern, limit int) (n int, more bool, err error) {
	if p.nodes == nil {
		return 0, false, nil
	}
	c := &counter{root: root, p: p, limit: limit}
	if p.fold || p.literal == "" {
		// A file system that ignores case may spell the literal part in any case.
		c.pending = []directory{{name: ".", nodes: p.begin()}}
	} else if err := c.descend(p.literal); err != nil {
		return 0, false, err
	}
	for len(c.pending) > 0 && !c.stopped {
		d := c.pending[len(c.pending)-1]
		c.pending = c.pending[:len(c.pending)-1]
		if err := c.read(d); err != nil {
			if d.name == "." {
				return 0, false, err
			}
			c.unread = true
		}
	}
	return c.n, c.stopped || c.unread, nil
}

// directory is a directory to read, with the nodes after its name and "/".
type directory struct {
	name  string // as root has it
	nodes []int32
}

type counter struct {
	root    fs.FS
	p       Pattern
	limit   int
	pending []directory
	visited int
	n       int
	stopped bool // at a limit
	unread  bool // a directory was left out
}

// descend goes to the path that everything matched is, or is below. It follows no symlink.
func (c *counter) descend(path string) error {
	if _, err := fs.Stat(c.root, "."); err != nil {
		return err
	}
	for i := 0; i <= len(path); i++ {
		if i < len(path) && path[i] != '/' {
			continue
		}
		info, err := fs.Lstat(c.root, path[:i])
		switch {
		case err != nil:
			c.unread = !errors.Is(err, fs.ErrNotExist)
			return nil
		case i == len(path):
			c.entry(path, info.IsDir(), c.p.begin(), path)
		case !info.IsDir():
			return nil
		}
	}
	return nil
}

// read reads one directory.
func (c *counter) read(d directory) error {
	f, err := c.root.Open(d.name)
	if errors.Is(err, fs.ErrNotExist) && d.name != "." {
		return nil // it was removed meanwhile
	}
	if err != nil {
		return err
	}
	defer f.Close()
	dir, ok := f.(fs.ReadDirFile)
	if !ok {
		return &fs.PathError{Op: "readdir", Path: d.name, Err: fs.ErrInvalid}
	}
	for !c.stopped {
		entries, err := dir.ReadDir(readBatch)
		for _, e := range entries {
			if c.visited++; c.visited > MaxVisited {
				c.stopped = true
				return nil
			}
			name := e.Name()
			if d.name != "." {
				name = d.name + "/" + name
			}
			c.entry(name, e.IsDir(), d.nodes, e.Name())
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// entry counts a file, or notes a directory for later. before are the nodes before text; they have not read it yet.
func (c *counter) entry(name string, isDir bool, before []int32, text string) {
	nodes := c.p.advance(before, text+"/", unbounded())
	switch {
	case isDir:
		nodes = slices.DeleteFunc(nodes, func(i int32) bool { return len(c.p.nodes[i].edges) == 0 })
		if len(nodes) > 0 {
			c.pending = append(c.pending, directory{name, nodes})
		}
	case !c.p.mayEnd(nodes):
	case c.n == c.limit:
		c.stopped = true
	default:
		c.n++
	}
}
