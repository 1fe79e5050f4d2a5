package reserve

import (
	"context"
	"fmt"
	"time"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/log/audit"
)

// Transfer gives the caller's reservation to a registered agent, with the time that it has left. From then on it is
// bound to the receiver's process, kept before or not. Refusals: UnknownTarget if the reservation has ended or the name
// is not registered, NotHolder, BadParams if the receiver has it already, OverLimit if the receiver has no room,
// Unavailable while an operator decides about the whole scope. Conflict if two holders would then overlap, because the
// caller has another reservation there.
func (b *Book) Transfer(ctx context.Context, by op.Requester, id op.ReservationID, to string) (Reservation, error) {
	holder, err := holderOf(by)
	if err != nil {
		return Reservation{}, err
	}
	w, err := b.handover(ctx, id, to)
	if err != nil {
		return Reservation{}, err
	}
	return b.give(ctx, w, by, func(tx *store.Tx, out *outcome) (Reservation, error) {
		r, err := readOf(tx, by, id, out.now)
		if err == nil {
			err = b.stands(tx, holder)
		}
		if err == nil {
			err = b.still(tx, r.Scope)
		}
		if err == nil {
			err = b.spend(tx, by, r)
		}
		return r, err
	}, func(e audit.Entry) audit.Entry { return e })
}

// give makes the wish's holder the holder of a reservation. let reads the reservation and says whether it may be given.
// said changes the entry before it is written.
func (b *Book) give(ctx context.Context, w *wish, by op.Requester, let func(*store.Tx, *outcome) (Reservation, error),
	said func(audit.Entry) audit.Entry) (Reservation, error) {
	var r Reservation
	var in inTheWay
	err := b.deciding(ctx, w, func(tx *store.Tx, out *outcome, near *search) (err error) {
		in = inTheWay{}
		if r, err = let(tx, out); err != nil {
			return err
		}
		e := entry(audit.Transferred, by, r)
		if in, err = b.handOver(tx, out, &r, w, near); err != nil {
			return err
		}
		return b.append(tx, said(handedOver(e, r)))
	})
	if err != nil {
		return Reservation{}, b.contested(err, in, w.holder)
	}
	r.Alive = b.alive(r.Holder)
	return r, nil
}

// handover is a reservation as the wish of the registered agent of a name. Its patterns never change; its mode may (see
// admits). If only the reservation cannot be read, the wish has no more than its holder; without such an agent it is nil.
func (b *Book) handover(ctx context.Context, id op.ReservationID, to string) (*wish, error) {
	if err := op.CheckName(to); err != nil {
		return nil, err
	}
	h, ok := b.cfg.Agent(to)
	if !ok {
		return nil, noAgent(to)
	}
	w := &wish{holder: h, known: new(survey), skip: id}
	return w, b.view(ctx, func(tx *store.Tx, now time.Time) error {
		r, err := read(tx, id, now)
		if err != nil {
			return err
		}
		left := int64(maxWork)
		w.mode = r.Mode
		w.region, err = b.regionOf(r, &left)
		return err
	})
}

func noAgent(name string) error {
	return refusal.New(refusal.UnknownTarget, "no agent %q is registered", name).WithHint("gated agent list shows who is")
}

// admits refuses a holder that has r already, is not registered, or has no room for it, and one that would overlap with
// another's.
func (b *Book) admits(tx *store.Tx, r Reservation, w *wish, near *search) (in inTheWay, err error) {
	to := w.holder
	if r.Holder.Same(to) {
		return in, refusal.New(refusal.BadParams, "%s has %v already", to, r.ID).WithHint("name another agent")
	}
	if ok, err := b.cfg.Registered(tx, to); err != nil || !ok {
		if err == nil {
			err = noAgent(to.Name)
		}
		return in, err
	}
	_, n, _, err := own(tx, r.Scope.Place, to, nil, near.now)
	if err == nil {
		err = full(r.Scope.Place, to, n)
	}
	if err == nil {
		err = room(tx, to, weightOf(r.Patterns), r.ID, near.now)
	}
	if err != nil {
		return in, err
	}
	w.mode = r.Mode
	if in, err = w.told(near); err == nil && in.any() {
		err = refusal.New(refusal.Conflict, "")
	}
	return in, err
}

// handOver gives r to the wish's holder, if that may have it.
func (b *Book) handOver(tx *store.Tx, out *outcome, r *Reservation, w *wish, near *search) (in inTheWay, err error) {
	if in, err = b.admits(tx, *r, w, near); err != nil {
		return in, err
	}
	to := w.holder
	r.Holder, r.Keep = to, false // the receiver did not ask that it outlives its process
	if _, err := tx.Exec(sqlSetHolder, to.Name, int64(to.UID), to.Member, to.Registration, int64(r.ID)); err != nil {
		return in, err
	}
	// The claims that wait for it now wait for the receiver. What the receiver waits for may now have to wait for such
	// a claim.
	out.gained = append(out.gained, to)
	out.changed(r.Scope.Target())
	return in, nil
}

// handedOver is the entry of a transfer: the giver's, with the new holder. Giver, receiver and the agents that wait
// read it.
func handedOver(e audit.Entry, r Reservation) audit.Entry {
	next := entry(e.Kind, theGate, r, e.For...)
	next.By, next.PID = e.By, e.PID
	return next
}

// contested words the refusal of a transfer.
func (b *Book) contested(err error, in inTheWay, to Holder) error {
	if !in.any() || refusal.CodeOf(err) != refusal.Conflict {
		return err
	}
	b.lives(in.conflicts)
	c := in.conflicts[0]
	more := ""
	if n := len(in.conflicts) - 1; n > 0 {
		more = fmt.Sprintf(", and %d more", n)
	}
	return refusal.New(refusal.Conflict, "%s would have what overlaps with another's: %s overlaps %s%s", to,
		shownPattern(c.Pattern), described(c), more).
		WithHint("their holder releases them first, or an operator signs gated reservation release-all --scope DIR")
}
