package reserve

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/log/audit"
)

// Renew gives the caller's reservation a new end, ttl from now; 0 is the default. If the new end is less than a second
// from the old one, the old one stays. Refusals: UnknownTarget if the reservation has ended, NotHolder, BadParams.
func (b *Book) Renew(ctx context.Context, by op.Requester, id op.ReservationID, ttl time.Duration) (Reservation, error) {
	ttl, err := checkTTL(ttl)
	if err != nil {
		return Reservation{}, err
	}
	return b.change(ctx, by, id, func(tx *store.Tx, out *outcome, r *Reservation) error {
		if out.now.Add(ttl).Sub(r.ExpiresAt).Abs() < leastRenewal {
			return b.mayAct()
		}
		if err := b.spend(tx, by, *r); err != nil {
			return err
		}
		if err := extend(tx, out, r, out.now.Add(ttl), ttl); err != nil {
			return err
		}
		out.changed(r.Scope.Target())
		return b.append(tx, entry(audit.Renewed, by, *r))
	})
}

// Release ends the caller's reservation and returns it as it was. Refusals: UnknownTarget if it has ended, NotHolder.
func (b *Book) Release(ctx context.Context, by op.Requester, id op.ReservationID) (Reservation, error) {
	return b.change(ctx, by, id, func(tx *store.Tx, out *outcome, r *Reservation) error {
		return b.end(tx, out, *r, audit.Released, by)
	})
}

// change runs do on one reservation of the caller.
func (b *Book) change(ctx context.Context, by op.Requester, id op.ReservationID, do func(*store.Tx, *outcome, *Reservation) error) (r Reservation, err error) {
	err = b.update(ctx, func(tx *store.Tx, out *outcome) (err error) {
		if r, err = readOf(tx, by, id, out.now); err != nil {
			return err
		}
		return do(tx, out, &r)
	})
	if err != nil {
		return Reservation{}, err
	}
	r.Alive = b.alive(r.Holder)
	return r, nil
}

// readOf returns a reservation if it is the caller's.
func readOf(tx *store.Tx, by op.Requester, id op.ReservationID, now time.Time) (Reservation, error) {
	holder, err := holderOf(by)
	if err != nil {
		return Reservation{}, err
	}
	r, err := read(tx, id, now)
	if err == nil && !r.Holder.Same(holder) {
		err = refusal.New(refusal.NotHolder, "%s (uid %v) has %v, not %s (uid %v)",
			r.Holder, r.Holder.Account(), id, holder, holder.Account()).
			WithHint("its holder can release or transfer it; operators can by a signature")
	}
	return r, err
}

// ReleaseMine ends all reservations of the caller, in every scope, and returns them as they were. It takes as many
// transactions as it needs. After an error, some may have ended.
func (b *Book) ReleaseMine(ctx context.Context, by op.Requester) ([]Reservation, error) {
	holder, err := holderOf(by)
	if err != nil {
		return nil, err
	}
	all, err := b.batches(ctx, func(tx *store.Tx, out *outcome) ([]Reservation, error) {
		some, err := list(tx, sqlMine, holder.Name, int64(holder.UID), holder.Member, out.now.UnixNano(), out.room)
		if err != nil {
			return nil, err
		}
		for _, r := range some {
			if err := b.end(tx, out, r, audit.Released, by); err != nil {
				return nil, err
			}
		}
		return some, nil
	})
	if err != nil {
		return nil, err
	}
	return b.living(all), nil
}

// end removes a reservation and writes the entry of its end.
func (b *Book) end(tx *store.Tx, out *outcome, r Reservation, why audit.Kind, by op.Requester) error {
	return b.endFor(tx, out, r, entry(why, by, r))
}

// endFor removes a reservation and writes entry e, which says why.
func (b *Book) endFor(tx *store.Tx, out *outcome, r Reservation, e audit.Entry) error {
	if err := remove(tx, r.ID); err != nil {
		return err
	}
	// A claim that begins to wait from now on sees that the reservation is gone.
	if waiting := b.queue.before(nil); len(waiting) > 0 {
		in, err := b.regionOf(r, &out.wakeLeft)
		if errors.Is(err, refusal.TooComplex) {
			in, err = region{}, nil // then the entry names all claims that wait, and all of them look again
		}
		if err != nil {
			return err
		}
		e.For = append(e.For, waitingFor(waiting, in, r.Holder, &out.wakeLeft)...)
		out.free = append(out.free, in)
	}
	out.changed(r.Scope.Target())
	return b.append(tx, e)
}

// regionOf returns the paths of a reservation, or TooComplex if that takes more work than is left.
func (b *Book) regionOf(r Reservation, left *int64) (region, error) {
	in := region{path: r.Scope.Key(), fold: r.Scope.Fold}
	for _, text := range r.Patterns {
		p, err := b.patterns.read(reading{text, in.fold}, left)
		if err != nil {
			return in, err
		}
		in.patterns = append(in.patterns, pattern{Pattern: p, asked: text, prefix: prefixOf(in.path, p)})
	}
	return in, nil
}

// Clear ends every reservation, without an entry for each, and returns how many there were. Scopes keep their ids. It
// is for a restored database, which does not know what was decided after its backup.
func Clear(tx *store.Tx) (ended int, err error) {
	if _, err := tx.Exec(`DELETE FROM reservation_patterns`); err != nil {
		return 0, fmt.Errorf("end reservations: %w", err)
	}
	n, err := tx.Exec(`DELETE FROM reservations`)
	if err != nil {
		return 0, fmt.Errorf("end reservations: %w", err)
	}
	return int(n), nil
}
