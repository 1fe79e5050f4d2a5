package reserve

import (
	"cmp"
	"errors"
	"slices"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
)

// inTheWay returns those hits beside which a claim cannot be granted, by id.
func (w *wish) inTheWay(in hits) (found []*hit) {
	for _, h := range in {
		if w.excludes(h.candidate) {
			found = append(found, h)
		}
	}
	slices.SortFunc(found, func(a, b *hit) int { return cmp.Compare(a.id, b.id) })
	return found
}

// excludes reports whether a candidate is in the way if it overlaps.
func (w *wish) excludes(c candidate) bool {
	return c.id != w.skip && !c.holder().Same(w.holder) && (w.mode == Exclusive || c.mode == Exclusive)
}

// cover returns the holder's first reservation in a scope that covers all of a claim, in a mode at least as strong; or
// 0.
func (w *wish) cover(in hits, scope Scope) (first op.ReservationID) {
	for _, h := range in {
		whole := h.holder().Same(w.holder) && (h.mode == Exclusive || w.mode == Shared) && h.scope == scope.number() && h.covers == 1<<len(w.patterns)-1
		if whole && (first == 0 || h.id < first) {
			first = h.id
		}
	}
	return first
}

// told reads the first few reservations that are in the way. If there is none but the search was not complete, it is
// TooComplex: the gate grants nothing that it did not compare.
func (w *wish) told(s *search) (in inTheWay, err error) {
	found := w.inTheWay(s.hits)
	if len(found) == 0 && s.more {
		return in, tooComplex(w.patterns[0].asked)
	}
	in.more = s.more || len(found) > MaxConflicts
	for _, h := range found[:min(len(found), MaxConflicts)] {
		r, err := read(s.tx, h.id, s.now)
		if err != nil {
			return in, err
		}
		in.conflicts = append(in.conflicts, Conflict{Pattern: h.asked, Overlaps: h.pattern, Reservation: r})
	}
	return in, nil
}

// earlier returns the first claim of another holder that waits, came earlier and overlaps. A claim that itself waits
// for something of this holder does not count, or both would wait for each other. Only what this holder had when that
// claim came counts: otherwise this holder could make it wait for ever with later reservations.
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
			if held, err = b.holdings(tx, out, w.holder); err != nil && !errors.Is(err, refusal.TooComplex) {
				return nil, err
			}
			ok = err == nil
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

// holding is a pattern of one of the holder's reservations.
type holding struct {
	id   op.ReservationID
	mode Mode
	region
}

// holdings returns all that a holder has, in any scope; TooComplex if that is too much.
func (b *Book) holdings(tx *store.Tx, out *outcome, h Holder) ([]holding, error) {
	all := []holding{}
	err := each(tx, func(c candidate) (bool, error) {
		out.queueLeft -= workOfRow
		p, err := b.patterns.read(reading{c.pattern, c.fold}, &out.queueLeft)
		all = append(all, holding{c.id, c.mode, region{path: c.path, fold: c.fold, patterns: []pattern{{Pattern: p, asked: c.pattern, prefix: c.prefix}}}})
		return out.queueLeft >= 0, err
	}, sqlHoldings, h.Name, int64(h.UID), out.now.UnixNano(), h.Member)
	if err == nil && out.queueLeft < 0 {
		err = tooComplex("")
	}
	return all, err
}

// overlaps reports whether two regions have a path in common. ok is false if the work does not suffice to tell.
func (r region) overlaps(o region, left *int64) (overlap, ok bool) {
	if *left -= int64(len(r.patterns) * len(o.patterns)); *left < 0 {
		return false, false
	}
	for _, p := range r.patterns {
		for _, q := range o.patterns {
			if !related(p.prefix, q.prefix) {
				continue
			}
			if overlap, ok = meet(r, p.Pattern, o, q.Pattern, left); overlap || !ok {
				return overlap, ok
			}
		}
	}
	return false, true
}
