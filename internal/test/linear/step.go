package linear

import (
	"slices"
	"time"

	"gated/internal/base/refusal"
)

// Op is a call with its answer, and what the clock of the gate said at some time
// before the one and after the other.
type Op struct {
	Call
	Answer
	Since, Until int64 // Unix nanoseconds

	// a waiting claim of somebody else went on at the same time and overlaps:
	// this one may have been refused for its sake
	behind bool
	// who made the reservation ID, and of what: ids are found again by these
	// where a lost call made them
	made map[string]Held
}

// step returns the states that may be after an operation in s, none if it
// cannot have been answered so.
//
// Whoever only reads does not wait for those who write, and its clock may be
// ahead of theirs: it may see as expired what a renewal under way, which came in
// time, keeps. So what a reader saw expire may be in force for a writer still.
func step(s state, o *Op) []state {
	var out []state
	for _, m := range s.moments(o.Since, o.Until) {
		if o.Refused == refusal.Unavailable { // the gate said that nothing happened
			out = append(out, m)
			continue
		}
		if o.Kind == Check || o.Kind == List {
			if _, ok := m.answered(o); ok || o.Lost || o.Late {
				return []state{s.told(o)}
			}
			continue
		}
		if o.Lost || o.Late {
			out = append(out, m)
			out = append(out, m.lost(o)...)
			continue
		}
		if after, ok := m.answered(o); ok {
			out = append(out, after)
		}
	}
	return out
}

func (s state) answered(o *Op) (state, bool) {
	switch o.Kind {
	case Register:
		return s.registered(o.Agent), o.Refused == "" && !s.person(o.Agent).here
	case End:
		return s.ended(o.Agent), o.Refused == "" && s.person(o.Agent).here
	case Reserve:
		if o.Refused != "" {
			return s.refusedClaim(o)
		}
		return s.granted(o)
	case Check:
		return s.shows(o, s.inTheWay(o.Agent, o.Set, o.Shared))
	case List:
		return s.shows(o, s.claims)
	default:
		return s.changed(o)
	}
}

// shows reports whether an answer shows exactly these claims, and gives ids to
// those that had none. An answer that says that there is more may lack some.
func (s state) shows(o *Op, claims []claim) (state, bool) {
	if o.Refused != "" && o.Kind != Reserve || len(o.Held) > len(claims) || len(o.Held) < len(claims) && !o.More {
		return s, false
	}
	for i, h := range o.Held {
		if slices.ContainsFunc(o.Held[:i], func(g Held) bool { return g.ID == h.ID }) {
			return s, false
		}
		var at int
		if s, at = s.find(o, h.ID); at < 0 {
			return s, false
		}
		c := s.claims[at]
		if !c.is(h) || !slices.ContainsFunc(claims, func(d claim) bool { return d.agent == c.agent && d.set == c.set }) {
			return s, false
		}
	}
	return s.told(o), true
}

// told is the state in which what an answer shows has its id and its end.
func (s state) told(o *Op) state {
	for _, h := range o.Held {
		var at int
		if s, at = s.find(o, h.ID); at >= 0 {
			s = s.with(at, s.claims[at].until(h))
		}
	}
	return s
}

// is reports whether an answer may show a claim so.
func (c claim) is(h Held) bool {
	at := h.Expires.UnixNano()
	return c.agent == h.Agent && c.set == h.Set && c.shared == h.Shared && c.keep == h.Keep && c.lo <= at && at <= c.hi
}

// until is a claim of which an answer said when it expires.
func (c claim) until(h Held) claim {
	c.lo, c.hi = h.Expires.UnixNano(), h.Expires.UnixNano()
	return c
}

// find returns where the reservation of an id is, -1 where it is not in force.
// What a lost call made gets its id here. Its id is later than every id that was
// known when the call took effect, because no id is given twice.
func (s state) find(o *Op, id string) (state, int) {
	if at := slices.IndexFunc(s.claims, func(c claim) bool { return c.id == id }); at >= 0 {
		return s, at
	}
	made, ok := o.made[id]
	if !ok {
		return s, -1
	}
	at := slices.IndexFunc(s.claims, func(c claim) bool {
		return c.id == "" && before(c.after, id) && c.agent == made.Agent && c.set == made.Set
	})
	if at < 0 {
		return s, -1
	}
	c := s.claims[at]
	c.id, c.after = id, ""
	s = s.knows(id).with(at, c)
	return s, slices.IndexFunc(s.claims, func(c claim) bool { return c.id == id })
}

// changed is the end of a renewal, a release or a transfer. Of several reasons
// for a refusal any may be told.
func (s state) changed(o *Op) (state, bool) {
	s, at := s.find(o, o.ID)
	var why []refusal.Code
	if at < 0 {
		why = append(why, refusal.UnknownTarget)
	} else if s.claims[at].agent != o.Agent {
		why = append(why, refusal.NotHolder)
	}
	if o.Kind == Transfer && !s.person(o.To).here {
		why = append(why, refusal.UnknownTarget)
	}
	if len(why) > 0 {
		return s, slices.Contains(why, o.Refused)
	}
	c := s.claims[at]
	to, taken := s.handed(c, o.To)
	if o.Kind == Transfer && taken {
		return s, o.Refused == refusal.Conflict
	}
	if o.Refused != "" || len(o.Held) != 1 || o.Held[0].ID != o.ID {
		return s, false
	}
	h := o.Held[0]
	switch o.Kind {
	case Renew:
		c = c.renewed(o)
		return s.with(at, c.until(h)), c.is(h)
	case Release:
		return s.without(at), c.is(h)
	default:
		return s.with(at, to.until(h)), to.is(h)
	}
}

// handed is a claim after its transfer; taken says that others would be in its way.
func (s state) handed(c claim, to string) (after claim, taken bool) {
	taken = slices.ContainsFunc(s.inTheWay(to, c.set, c.shared), func(d claim) bool { return d != c })
	c.agent, c.life, c.keep = to, s.person(to).life, false
	return c, taken
}

// renewed is a claim after a renewal by an operation: it has a new end.
func (c claim) renewed(o *Op) claim { return c.ends(o.Since+int64(o.TTL), o.Until+int64(o.TTL)) }

// ends is a claim with a new end between two moments; or with its old one, where
// that is less than a second away, for then it may stay.
func (c claim) ends(lo, hi int64) claim {
	if near := int64(time.Second); c.lo < hi+near && c.hi > lo-near {
		lo, hi = min(lo, max(c.lo, lo-near)), max(hi, min(c.hi, hi+near))
	}
	c.lo, c.hi = lo, hi
	return c
}
