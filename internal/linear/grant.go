package linear

import (
	"slices"

	"gated/internal/op"
)

// granted is the end of a claim that was granted: it was held already, and is
// the same reservation still, or it was not and is a new one.
func (s state) granted(o *Op) (state, bool) {
	if !s.person(o.Agent).here || len(o.Held) != 1 || len(s.inTheWay(o.Agent, o.Set, o.Shared)) > 0 {
		return s, false
	}
	h := o.Held[0]
	if o.Renewed {
		var at int
		if s, at = s.find(o, h.ID); at < 0 || s.claims[at].agent != o.Agent || s.claims[at].set != o.Set {
			return s, false
		}
		c := s.asked(o, s.claims[at])
		return s.with(at, c.until(h)), c.is(h)
	}
	known := slices.ContainsFunc(s.claims, func(c claim) bool { return c.id == h.ID })
	c := s.asked(o, claim{id: h.ID})
	return s.with(-1, c.until(h)), !known && !s.has(o.Agent, o.Set) && c.is(h)
}

// asked is a claim as the holder asked for it, this time. Of two ends the later
// one counts.
func (s state) asked(o *Op, c claim) claim {
	c.agent, c.life, c.set, c.shared, c.keep = o.Agent, s.person(o.Agent).life, o.Set, o.Shared, o.Keep
	c.lo, c.hi = max(c.lo, o.Since+int64(o.TTL)), max(c.hi, o.Until+int64(o.TTL))
	return c
}

// refusedClaim is the end of a claim that was refused: others are in the way, or
// wait in front of it.
func (s state) refusedClaim(o *Op) (state, bool) {
	if !s.person(o.Agent).here {
		return s, o.Refused == op.NotHolder
	}
	if o.Refused != op.Conflict {
		return s, false
	}
	in := s.inTheWay(o.Agent, o.Set, o.Shared)
	if o.behind {
		return s, true
	}
	if len(in) == 0 {
		return s, false
	}
	return s.shows(o, in)
}
