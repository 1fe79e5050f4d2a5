package glob

import "gated/internal/base/refusal"

// context is what was read of the segment that a place in a pattern is in.
//
// What a segment means can depend on all of it: "." and nothing are dropped,
// ".." is refused, "**" is any number of segments. So at a segment's first
// character the graph has two branches. In one the segment is one of those, and no
// character of the path is read (oneDot, twoStars). In the other it is not (inside).
// A branch that turns out wrong leads nowhere, or reads "**" as two stars, which is
// less than "**".
type context uint8

const (
	begin   context = iota // of the pattern
	bare                   // at a segment's first character; all before it was dropped
	bareDot                // all was dropped, and the segment is "." so far

	start    // at a segment's first character
	oneDot   // the segment is "." so far
	twoDots  // the segment is ".." so far
	oneStar  // the segment is "*" so far
	twoStars // the segment is "**" so far

	// What the path's own segment is so far. No path has a segment "", "." or "..",
	// whatever wildcards would match.
	inside       // nothing
	insideDot    // "."
	insideDotDot // ".."
	insideName   // anything else

	// The same in a segment that "**" takes.
	among
	amongDot
	amongDotDot
	amongName

	contexts = int(amongName) + 1
)

// from adds to a node what can come next at a spot, once for each node: many
// combinations of alternatives can lead to one spot.
func (b *builder) from(n *node, s spot) {
	seen := &b.seen[s.index()]
	if *seen == len(b.nodes) {
		return
	}
	*seen = len(b.nodes)
	k := end
	if int(s.at) < len(b.elements) {
		k = b.elements[s.at].kind
	}
	next := spot{s.at + 1, s.ctx}
	switch {
	case s.ctx >= among:
		b.in(n, inSegment, s, s.ctx)
		if s.ctx == amongName {
			b.read(n, aSlash, spot{s.at, twoStars})
		}
	case k == open, k == comma:
		for _, to := range b.jumps[s.at] {
			b.from(n, spot{to, s.ctx})
		}
	case k == shut:
		b.from(n, next)
	case k == separator, k == end:
		b.segmentEnds(n, s, k)
	case s.ctx >= inside:
		b.character(n, s, &b.elements[s.at])
	default:
		b.segmentMeans(n, s, &b.elements[s.at])
	}
}

// character reads one of the path inside a segment.
func (b *builder) character(n *node, s spot, e *element) {
	after := spot{s.at + 1, s.ctx}
	switch e.kind {
	case star:
		b.in(n, inSegment, s, s.ctx)
		b.from(n, after)
	case anyOne:
		b.in(n, inSegment, after, s.ctx)
	case class:
		b.in(n, e.set, after, s.ctx)
	default:
		b.in(n, b.literal(e.r), after, s.ctx)
	}
}

// in reads a character of a set inside a segment, of which ctx was read before.
// Whether it is "." matters for the first two.
func (b *builder) in(n *node, s set, to spot, ctx context) {
	name := insideName
	if ctx >= among {
		name = amongName
	}
	if to.ctx = name; ctx != name && ctx != name-1 && s.has('.') {
		b.read(n, aDot, spot{to.at, ctx + 1})
		if s = s.minus(aDot); len(s) == 0 {
			return
		}
	}
	b.read(n, s, to)
}

// segmentMeans goes on where a segment may have a meaning of its own.
func (b *builder) segmentMeans(n *node, s spot, e *element) {
	isDot, first := e.kind == literal && e.r == '.', s.ctx <= bare || s.ctx == start
	if first && !b.allStars(s.at) {
		b.from(n, spot{s.at, inside})
	}
	next := spot{at: s.at + 1}
	switch {
	case e.kind == star && first:
		next.ctx = oneStar
	case e.kind == star && (s.ctx == oneStar || s.ctx == twoStars):
		next.ctx = twoStars
	case isDot && (s.ctx == begin || s.ctx == bare):
		next.ctx = bareDot
	case isDot && s.ctx == start:
		next.ctx = oneDot
	case isDot && (s.ctx == bareDot || s.ctx == oneDot):
		next.ctx = twoDots
	default:
		return
	}
	b.from(n, next)
}

// allStars reports whether a segment is surely "**".
func (b *builder) allStars(at int32) bool {
	rest := b.elements[at:]
	return len(rest) > 1 && rest[0].kind == star && rest[1].kind == star && (len(rest) == 2 || rest[2].kind == separator)
}

// segmentEnds is at "/" or at the pattern's end. After a "/" at the end, all that
// is below matches too, as after "**".
func (b *builder) segmentEnds(n *node, s spot, k kind) {
	next := spot{s.at + 1, start}
	switch s.ctx {
	case begin:
		if k == end {
			b.refuse(namesNothing(b.pattern))
		} else {
			b.refuse(refusal.New(refusal.BadParams, "the pattern %.80q has an alternative that is absolute", b.pattern).
				WithHint("write alternatives relative to the scope"))
		}
		return
	case twoDots:
		b.refuse(refusal.New(refusal.BadParams, "the pattern %.80q, or one of its alternatives, has a segment ..", b.pattern).
			WithHint("write it relative to the scope, without .."))
		return
	case bareDot:
		if k == end {
			b.refuse(namesNothing(b.pattern))
		}
		next.ctx = bare
	case bare:
		next.ctx = bare
	case insideName:
		if k == end {
			next = spot{s.at, oneDot} // the path may end there, and nothing comes after
		}
		b.read(n, aSlash, next)
		return
	case insideDot, insideDotDot:
		if k == separator {
			b.number(next) // no path leads there, but a ".." there is refused
		}
		return
	case oneStar, inside:
		return
	}
	if k == end {
		n.end = true
	}
	if s.ctx == twoStars || k == end && (s.ctx == bare || s.ctx == start) {
		b.from(n, spot{s.at, among})
	}
	if k == separator {
		b.from(n, next)
	}
}
