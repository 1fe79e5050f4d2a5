package glob

import "gated/internal/op"

func (c *compiler) kindAt(at int32) kind {
	if int(at) == len(c.elements) {
		return end
	}
	return c.elements[at].kind
}

// from finds out what can come next at n, once. Places that lead on without
// reading anything lead forward, so this ends.
func (c *compiler) from(n node) int32 {
	i := c.find(n)
	if c.places[i].done {
		return i
	}
	o := c.borrow()
	defer c.giveBack(o)
	k := c.kindAt(n.at)
	switch {
	case n.ctx >= among:
		c.anySegment(o, n, k)
	case k == open || k == comma:
		for _, to := range c.jumps[n.at] {
			c.on(o, node{to, n.ctx})
		}
	case k == shut:
		c.on(o, node{n.at + 1, n.ctx})
	case k == separator:
		c.separator(o, n)
	case k == end:
		c.end(o, n)
	case k == star:
		c.star(o, n)
	default:
		c.character(o, n)
	}
	p := &c.places[i]
	p.done, p.ends, p.reads = true, o.ends, c.keep(o.reads)
	return i
}

// character leads on from a literal, a class or "?".
func (c *compiler) character(o *next, n node) {
	e := &c.elements[n.at]
	isDot := e.kind == literal && e.r == '.'
	switch n.ctx {
	case begin, hereBare, hereNone, hereSome:
		c.commit(o, n)
		if isDot {
			c.on(o, node{n.at + 1, n.ctx.afterDot()})
		}
	case dotBare, dotNone, dotSome:
		if isDot {
			c.on(o, node{n.at + 1, dotDot})
		}
	case inside, insideDot, insideDotDot, insideName:
		c.in(o, c.labels.of(n.at, e), n.at+1, n.ctx)
	}
}

// commit begins to read a segment that is none of those with a meaning of their
// own.
func (c *compiler) commit(o *next, n node) {
	if n.ctx == hereSome {
		c.read(o, labelSlash, node{n.at, inside})
		return
	}
	c.on(o, node{n.at, inside})
}

// in adds the reading of a label inside a segment: at is the place after it, ctx
// the context before. Whether "." was read matters for the first two characters,
// but not laxly.
func (c *compiler) in(o *next, label int32, at int32, ctx context) {
	base, name := inside, insideName
	if ctx >= among {
		base, name = among, amongName
	}
	if c.lax || ctx-base >= insideDotDot-inside {
		c.read(o, label, node{at, name})
		return
	}
	if c.labels.sets[label].has('.') {
		c.read(o, labelDot, node{at, ctx + 1})
	}
	if rest := c.labels.withoutDot(label); rest >= 0 {
		c.read(o, rest, node{at, name})
	}
}

// star leads on from "*".
func (c *compiler) star(o *next, n node) {
	switch n.ctx {
	case begin, hereBare, hereNone, hereSome:
		some := context(0)
		if n.ctx == hereSome {
			some = 1
		}
		if next := n.at + 1; c.kindAt(next) == star {
			if after := c.kindAt(next + 1); after == separator || after == end {
				c.on(o, node{next + 1, starsNone + some}) // surely "**"
				return
			}
		}
		c.commit(o, n)
		c.on(o, node{n.at + 1, starNone + some})
	case starNone, starsNone:
		c.on(o, node{n.at + 1, starsNone})
	case starSome, starsSome:
		c.on(o, node{n.at + 1, starsSome})
	case inside, insideDot, insideDotDot, insideName:
		c.in(o, labelAny, n.at, n.ctx)
		c.on(o, node{n.at + 1, n.ctx})
	}
}

// separator leads on from "/". A segment that is not complete, such as one of
// the path that would be "..", leads nowhere.
func (c *compiler) separator(o *next, n node) {
	switch n.ctx {
	case begin:
		c.refuse(op.Refuse(op.BadParams, "the pattern %.80q has an alternative that is absolute", c.pattern).
			WithHint("write alternatives relative to the scope"))
	case hereBare, hereNone, hereSome, dotBare, dotNone, dotSome:
		c.on(o, node{n.at + 1, n.ctx.dropped()})
	case dotDot:
		c.refuse(c.climbs())
	case starsNone:
		c.on(o, node{n.at + 1, hereNone})
		c.on(o, node{n.at, among})
	case starsSome:
		c.on(o, node{n.at + 1, hereSome})
		c.read(o, labelSlash, node{n.at, among})
	case insideName:
		c.on(o, node{n.at + 1, hereSome})
	}
}

// end is at the pattern's end. After "/" all that is below matches too, as after
// "**".
func (c *compiler) end(o *next, n node) {
	switch n.ctx {
	case begin, dotBare:
		c.refuse(namesNothing(c.pattern))
	case dotDot:
		c.refuse(c.climbs())
	case hereBare, hereNone, starsNone:
		c.on(o, node{n.at, among})
	case hereSome, starsSome:
		o.ends = true
		c.read(o, labelSlash, node{n.at, among})
	case dotSome, insideName:
		o.ends = true
	}
}

// anySegment is inside a segment that "**" takes, with "/" or the pattern's end
// behind the "**". Laxly, all that "**" takes is one run of characters.
func (c *compiler) anySegment(o *next, n node, k kind) {
	if c.lax {
		c.in(o, labelAll, n.at, n.ctx)
	} else {
		c.in(o, labelAny, n.at, n.ctx)
	}
	if n.ctx != amongName {
		return
	}
	if !c.lax {
		c.read(o, labelSlash, node{n.at, among})
	}
	if k == end {
		o.ends = true
	} else {
		c.on(o, node{n.at + 1, hereSome})
	}
}

func (c *compiler) climbs() error {
	return op.Refuse(op.BadParams, "the pattern %.80q, or one of its alternatives, has a segment ..", c.pattern).
		WithHint("write it relative to the scope, without ..")
}
