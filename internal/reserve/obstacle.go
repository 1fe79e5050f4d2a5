package reserve

import (
	"gated/internal/glob"
	"gated/internal/op"
	"gated/internal/store"
)

// obstacles returns what is in the way of a claim in a scope, and the first of
// the holder's own reservations that covers it, or 0. me is its place among those
// that wait.
func (b *Book) obstacles(tx *store.Tx, out *outcome, w *wish, scope Scope, own bool, me *waiter) (in inTheWay, cover op.ReservationID, err error) {
	s := b.searchFor(tx, out, w)
	s.own = own
	seen, err := s.look(out, w.region)
	if err != nil {
		return in, 0, err
	}
	if in, err = s.told(seen); err == nil && !in.any() {
		in.before, err = b.earlier(tx, out, w, me)
	}
	return in, s.cover(seen, w.region, scope), err
}

// conflicts returns the reservations of others that a claim overlaps; skip is one
// that does not count.
func (b *Book) conflicts(tx *store.Tx, out *outcome, w *wish, skip op.ReservationID) (in inTheWay, err error) {
	s := b.searchFor(tx, out, w)
	s.skip = skip
	seen, err := s.look(out, w.region)
	if err != nil {
		return in, err
	}
	return s.told(seen)
}

func (b *Book) searchFor(tx *store.Tx, out *outcome, w *wish) *search {
	return &search{tx: tx, cache: b.patterns, now: out.now, left: &out.left, mine: w.holder, mode: w.mode, max: MaxConflicts}
}

// told reads the reservations that are in the way.
func (s *search) told(seen *sights) (in inTheWay, err error) {
	hits, more := s.conflicts(seen)
	in.more = more
	for _, h := range hits {
		r, err := read(s.tx, h.id, s.now)
		if err != nil {
			return in, err
		}
		in.conflicts = append(in.conflicts, Conflict{Pattern: h.asked, Overlaps: h.pattern, Reservation: r})
	}
	return in, nil
}

// earlier returns the first claim of another holder that waits, came before and
// overlaps. One that itself waits for something of this holder does not count:
// else both would wait for each other. But only for what this holder had when the
// claim came: with what it got since it could keep the claim waiting for ever.
func (b *Book) earlier(tx *store.Tx, out *outcome, w *wish, me *waiter) (*waiter, error) {
	var held []holding
	for _, o := range b.queue.before(me) {
		if o.holder.Same(w.holder) || o.mode == Shared && w.mode == Shared {
			continue
		}
		overlap, ok := w.overlaps(o.region, &out.queueLeft)
		if ok && !overlap {
			continue
		}
		if ok && held == nil {
			var err error
			if held, ok, err = b.holdings(tx, out, w.holder); err != nil {
				return nil, err
			}
		}
		waits := false
		for i := 0; ok && !waits && i < len(held); i++ {
			if h := &held[i]; int64(h.id) < o.came.Load() && (o.mode == Exclusive || h.mode == Exclusive) {
				waits, ok = o.overlaps(h.region, &out.queueLeft)
			}
		}
		if !ok {
			return nil, tooComplex(w.patterns[0].asked)
		}
		if !waits {
			return o, nil
		}
	}
	return nil, nil
}

// holding is a pattern of a reservation.
type holding struct {
	id   op.ReservationID
	mode Mode
	region
}

const sqlHoldings = `SELECT p.prefix, p.pattern, r.id, r.agent, r.uid, r.mode, r.fold, r.scope, s.path FROM reservations AS r
	CROSS JOIN reservation_patterns AS p ON p.reservation = r.id CROSS JOIN scopes AS s ON s.id = r.scope
	WHERE r.agent = ?1 AND r.uid = ?2 AND r.expires_at > ?3`

// holdings returns what a holder has, wherever; ok is false if that is too much.
func (b *Book) holdings(tx *store.Tx, out *outcome, h Holder) (all []holding, ok bool, err error) {
	all, ok = []holding{}, true
	s := &search{tx: tx, cache: b.patterns}
	_, err = s.query(func(c candidate) (bool, error) {
		out.queueLeft -= workOfRow
		if !b.patterns.has(reading{c.pattern, c.fold}) {
			out.queueLeft -= workOfParse * int64(len(c.pattern))
		}
		if ok = out.queueLeft >= 0; !ok {
			return false, nil
		}
		p, err := b.patterns.parse(c.pattern, glob.Options{FoldCase: c.fold})
		all = append(all, holding{c.id, c.mode, region{path: c.path, fold: c.fold, patterns: []pattern{{Pattern: p, asked: c.pattern, prefix: c.prefix}}}})
		return err == nil, err
	}, sqlHoldings, h.Name, int64(h.UID), out.now.UnixNano())
	return all, ok, err
}

// overlaps reports whether two regions have a path in common; ok is false if
// that is too much to find out.
func (r region) overlaps(o region, left *int64) (overlap, ok bool) {
	if *left -= workOfPrefix * int64(len(r.patterns)*len(o.patterns)); *left < 0 {
		return false, false
	}
	for _, p := range r.patterns {
		for _, q := range o.patterns {
			if !related(p.prefix, q.prefix) {
				continue
			}
			if *left -= workOfPair + int64(len(p.String()))*int64(len(q.String())); *left < 0 {
				return false, false
			}
			if meet(r, p.Pattern, o, q.Pattern) {
				return true, true
			}
		}
	}
	return false, true
}
