package reserve

import (
	"context"
	"errors"
	"time"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/log/audit"
)

// Granted is what a claim got. Renewed says that its holder had it already.
type Granted struct {
	Reservation
	Renewed bool
}

// Reserve grants a claim as a whole, or refuses it:
//
//   - Conflict, with those in the way, if a reservation of another holder overlaps
//     it and not both are shared, or if an earlier claim of another holder waits
//     and overlaps it;
//   - OverLimit beyond MaxPerHolder, MaxPatterns, MaxScopes or what may wait;
//   - TooComplex for a pattern beyond glob's limits, or with too many others near;
//   - Oversized if the log's entry with all patterns would be too long (audit.MaxEntry);
//   - BadParams or Malformed for anything else that is wrong with it;
//   - NotHolder if its agent's registration has ended;
//   - Unavailable while an operator decides about the whole scope.
//
// A holder's claim to the patterns that it has in this scope renews its reservation: the later of both ends counts, and
// all else is as asked now. If another reservation of the holder in the scope covers the claim, by patterns and mode,
// the claim renews that one. The first that covers it counts. Then only its end moves, and it is kept if either is.
//
// With a Wait, the claim waits so long for others to release. If ctx ends meanwhile, the error is its cause.
func (b *Book) Reserve(ctx context.Context, c Claim) (Granted, []Conflict, error) {
	w, err := readClaim(c)
	if err != nil {
		return Granted{}, nil, err
	}
	g, conflicts, err := b.attempt(ctx, w, nil)
	if c.Wait > 0 && errors.Is(err, refusal.Conflict) {
		return b.wait(ctx, w, c.Wait)
	}
	return g, conflicts, err
}

// attempt decides a claim at once. me is its place among the claims that wait.
func (b *Book) attempt(ctx context.Context, w *wish, me *waiter) (Granted, []Conflict, error) {
	var g Granted
	var in inTheWay
	err := b.deciding(ctx, w, func(tx *store.Tx, out *outcome, near *search) (err error) {
		g, in, err = b.decide(tx, out, w, near, me)
		return err
	})
	switch {
	case err == nil:
		g.Alive = b.alive(g.Holder)
		return g, nil, nil
	case errors.Is(err, refusal.Conflict) && in.any():
		b.lives(in.conflicts)
		return Granted{}, in.conflicts, in.refusal()
	}
	return Granted{}, nil, err
}

// decide grants or renews what a claim asks for, or returns what is in the way.
func (b *Book) decide(tx *store.Tx, out *outcome, w *wish, near *search, me *waiter) (g Granted, in inTheWay, err error) {
	if err := b.stands(tx, w.holder); err != nil {
		return g, in, err
	}
	scope, n, same, err := own(tx, w.place, w.holder, w.sum, out.now)
	if err != nil {
		return g, in, err
	}
	if in, err = w.told(near); err == nil && !in.any() {
		in.before, err = b.earlier(tx, out, w, me)
	}
	cover := w.cover(near.hits, scope)
	switch {
	case err != nil:
	case len(in.conflicts) > 0, in.before != nil && same == 0 && cover == 0:
		err = refusal.New(refusal.Conflict, "")
	case same != 0:
		g, err = b.again(tx, out, w, same, in.before != nil)
	case cover != 0:
		g, err = b.longer(tx, out, w, cover)
	default:
		if err = full(w.place, w.holder, n); err == nil {
			err = room(tx, w.holder, w.weight(), 0, out.now)
		}
		if err == nil {
			g, err = b.grant(tx, out, w, scope)
		}
	}
	return g, in, err
}

// stands refuses a holder whose registration has ended.
func (b *Book) stands(tx *store.Tx, h Holder) error {
	if h.Registration == 0 {
		return nil
	}
	ok, err := b.cfg.Registered(tx, h)
	if err == nil && !ok {
		err = refusal.New(refusal.NotHolder, "the agent %q is not registered any more", h.Name).WithHint("register it again")
	}
	return err
}

// still refuses a change of a scope's reservations while an operator decides about them.
func (b *Book) still(tx *store.Tx, s Scope) error {
	if b.cfg.Still == nil {
		return nil
	}
	return b.cfg.Still(tx, s.Target())
}

// own returns the scope of a place, if there is one, how many reservations a holder has there, and the id of its
// reservation with that digest of patterns, or 0.
func own(tx *store.Tx, p Place, h Holder, digest []byte, now time.Time) (s Scope, n int, same op.ReservationID, err error) {
	var id, at int64
	err = tx.QueryRow(sqlOwn, digest, h.Name, int64(h.UID), now.UnixNano(), p.Key(), int64(p.Device), int64(p.Inode), h.Member).Scan(&id, &at, &n, &same)
	if err == nil && id != 0 {
		s = Scope{ID: scopeID(id), Place: p, At: fromNano(at)}
	}
	return s, n, same, err
}

// full refuses one reservation more than a holder may have in a scope.
func full(s Place, h Holder, n int) error {
	if n < MaxPerHolder {
		return nil
	}
	return refusal.New(refusal.OverLimit, "%s has %d reservations in %s already, and may have %d",
		h, n, s, MaxPerHolder).
		WithHint("release some, or reserve several patterns at once")
}

// grant writes a new reservation.
func (b *Book) grant(tx *store.Tx, out *outcome, w *wish, scope Scope) (Granted, error) {
	if scope.ID == "" {
		var err error
		if scope, err = placeScope(tx, w.place, out.now); err != nil {
			return Granted{}, err
		}
	}
	scope.Fold = w.fold
	if err := b.still(tx, scope); err != nil {
		return Granted{}, err
	}
	r := Reservation{Scope: scope, Patterns: w.texts(), Mode: w.mode, Holder: w.holder, Keep: w.keep, Reason: w.reason,
		CreatedAt: fromNano(out.now.UnixNano()), ExpiresAt: fromNano(out.now.Add(w.ttl).UnixNano())}
	if err := b.spend(tx, w.by, r, r.Patterns...); err != nil {
		return Granted{}, err
	}
	if err := insert(tx, &r, w.region, w.ttl); err != nil {
		return Granted{}, err
	}
	out.dueBy(dueAt(r.ExpiresAt, w.ttl))
	out.changed(r.Scope.Target())
	return Granted{Reservation: r}, b.append(tx, entry(audit.Reserved, w.by, r))
}

// again renews a reservation that its holder asks for once more. That takes nothing from the claims that wait for it,
// unless it was shared. behind says that an earlier claim waits for it.
func (b *Book) again(tx *store.Tx, out *outcome, w *wish, id op.ReservationID, behind bool) (Granted, error) {
	r, err := read(tx, id, out.now)
	if err == nil && behind && r.Mode == Shared && w.mode == Exclusive {
		err = refusal.New(refusal.Conflict, "")
	}
	if err != nil {
		return Granted{}, err
	}
	before := r
	r.Holder, r.Mode, r.Reason, r.Keep = w.holder, w.mode, w.reason, w.keep
	if before.Mode == Exclusive && r.Mode == Shared {
		out.free = append(out.free, w.region)
	}
	return b.renewed(tx, out, w, before, r)
}

// renewed gives the holder's reservation the later of both ends, and the terms of the new claim. If almost nothing
// changes, it writes nothing.
func (b *Book) renewed(tx *store.Tx, out *outcome, w *wish, before, r Reservation) (Granted, error) {
	later := out.now.Add(w.ttl)
	same := r.Holder == before.Holder && r.Mode == before.Mode && r.Reason == before.Reason && r.Keep == before.Keep
	if same && later.Sub(r.ExpiresAt) < leastRenewal {
		return Granted{before, true}, b.mayAct()
	}
	if err := b.spend(tx, w.by, r); err != nil {
		return Granted{}, err
	}
	if r.Mode != before.Mode || r.Holder != before.Holder {
		if err := b.still(tx, r.Scope); err != nil {
			return Granted{}, err
		}
	}
	if !same {
		if _, err := tx.Exec(sqlSetTerms, r.Holder.Registration, string(r.Mode), r.Reason, r.Keep, int64(r.ID)); err != nil {
			return Granted{}, err
		}
	}
	if later.After(r.ExpiresAt) {
		if err := extend(tx, out, &r, later, w.ttl); err != nil {
			return Granted{}, err
		}
	}
	out.changed(r.Scope.Target())
	return Granted{r, true}, b.append(tx, entry(audit.Renewed, w.by, r))
}

// mayAct refuses an answer that changes nothing, if another daemon may decide.
func (b *Book) mayAct() error {
	if b.cfg.MayAct == nil {
		return nil
	}
	return b.cfg.MayAct()
}

// longer renews a reservation that covers what its holder asks for. Its patterns, mode and reason stay. It is kept if
// it was kept or the claim asks for that.
func (b *Book) longer(tx *store.Tx, out *outcome, w *wish, id op.ReservationID) (Granted, error) {
	r, err := read(tx, id, out.now)
	if err != nil {
		return Granted{}, err
	}
	before := r
	r.Holder, r.Keep = w.holder, r.Keep || w.keep
	return b.renewed(tx, out, w, before, r)
}

// extend sets when a reservation ends.
func extend(tx *store.Tx, out *outcome, r *Reservation, until time.Time, ttl time.Duration) error {
	r.ExpiresAt = fromNano(until.UnixNano())
	due := dueAt(r.ExpiresAt, ttl)
	out.dueBy(due)
	_, err := tx.Exec(sqlSetTimes, r.ExpiresAt.UnixNano(), due, int64(r.ID))
	return err
}
