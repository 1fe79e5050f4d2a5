package glob

import (
	"math"
	"strings"
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
