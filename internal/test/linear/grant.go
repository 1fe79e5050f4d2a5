package linear

import (
	"slices"

	"gated/internal/base/refusal"
)

// granted is the end of a claim that was granted: it was held already, as it is or
// inside another, and is the same reservation still, or it was not and is a new one.
func (s state) granted(o *Op) (state, bool) {
	if !s.person(o.Agent).here || len(o.Held) != 1 || len(s.inTheWay(o.Agent, o.Set, o.Shared)) > 0 {
		return s, false
	}
	h := o.Held[0]
	if o.Renewed {
		var at int
		if s, at = s.find(o, h.ID); at < 0 || s.claims[at].agent != o.Agent {
			return s, false
		}
		c := s.claims[at]
		switch {
		case c.set == o.Set:
			c = s.asked(o, c)
		case !s.has(o.Agent, o.Set) && slices.Contains(s.covering(o), at):
			c = s.longer(o, c)
		default:
			return s, false
		}
		return s.with(at, c.until(h)), c.is(h)
	}
	known := slices.ContainsFunc(s.claims, func(c claim) bool { return c.id == h.ID })
	c := s.asked(o, claim{id: h.ID})
	return s.knows(h.ID).with(-1, c.until(h)), !known && !s.has(o.Agent, o.Set) && len(s.covering(o)) == 0 && c.is(h)
}

// covering returns which of the caller's own a claim may renew that is inside them:
// the one with the first id, and any of which no id is known yet.
func (s state) covering(o *Op) (at []int) {
	first := -1
	for i, c := range s.claims {
		if c.agent != o.Agent || !c.set.covers(o.Set) || c.shared && !o.Shared {
			continue
		}
		if c.id == "" {
			at = append(at, i)
		} else if first < 0 || before(c.id, s.claims[first].id) {
			first = i
		}
	}
	if first >= 0 {
		at = append(at, first)
	}
	return at
}

// before reports whether one id was given before another: r9 before r10.
func before(a, b string) bool { return len(a) < len(b) || len(a) == len(b) && a < b }

// longer is a claim that was asked for in part: only its end moves, and it is kept
// if either is.
func (s state) longer(o *Op, c claim) claim {
	c.life, c.keep = s.person(o.Agent).life, c.keep || o.Keep
	return c.ends(max(c.lo, o.Since+int64(o.TTL)), max(c.hi, o.Until+int64(o.TTL)))
}

// asked is a claim as the holder asked for it, this time. Of two ends the later
// one counts.
func (s state) asked(o *Op, c claim) claim {
	c.agent, c.life, c.set, c.shared, c.keep = o.Agent, s.person(o.Agent).life, o.Set, o.Shared, o.Keep
	return c.ends(max(c.lo, o.Since+int64(o.TTL)), max(c.hi, o.Until+int64(o.TTL)))
}

// refusedClaim is the end of a claim that was refused: others are in the way, or
// wait in front of it.
func (s state) refusedClaim(o *Op) (state, bool) {
	if !s.person(o.Agent).here {
		return s, o.Refused == refusal.NotHolder
	}
	if o.Refused != refusal.Conflict {
		return s, false
	}
	in := s.inTheWay(o.Agent, o.Set, o.Shared)
	if o.behind {
		return s, true
	}
	still, lapsed := s.withoutLapsed(o)
	if len(in) == 0 {
		return s, lapsed && len(still.Held) == 0
	}
	return s.shows(still, in)
}

// withoutLapsed takes out of an answer what expired during the call and is gone. A
// decision goes by the clock at its beginning, so its answer may still name a
// reservation that another call, which read while the decision was written, no
// longer saw.
func (s state) withoutLapsed(o *Op) (still *Op, lapsed bool) {
	rest := *o
	rest.Held = slices.DeleteFunc(slices.Clone(o.Held), func(h Held) bool {
		at := h.Expires.UnixNano()
		gone := !slices.ContainsFunc(s.claims, func(c claim) bool { return c.id == h.ID || c.id == "" })
		return gone && o.Since <= at && at <= o.Until
	})
	return &rest, len(rest.Held) < len(o.Held)
}
