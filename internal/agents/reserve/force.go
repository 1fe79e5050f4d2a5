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

// View is a scope with the reservations in force there at one moment.
type View struct {
	Scope        Scope
	Reservations []Reservation // by id
	Last         string        // the last step of operators that was applied, "j12.1"; or ""
}

// Fingerprint digests what operators decide about: the reservations, their paths, modes and holders. Times and reasons
// are not in it.
func (v View) Fingerprint() op.Fingerprint {
	text := fmt.Appendf(nil, "scope %s\n", v.Scope.ID)
	for _, r := range v.Reservations {
		text = r.appendCovered(text)
	}
	return op.FingerprintOf(text)
}

// Handover digests what operators decide about if they give this one reservation to another holder: the reservation,
// its scope and the receiver. The receiver is one registration: a later registration of the same name is another
// receiver.
func (r Reservation) Handover(to Holder) op.Fingerprint {
	text := r.appendCovered(fmt.Appendf(nil, "one of scope %s\n", r.Scope.ID))
	return op.FingerprintOf(fmt.Appendf(text, "to %q %v %d\n", to.Name, to.Account(), to.Registration))
}

// Receiver returns the holder that a transfer of a reservation to an agent's name would have now. Its error is the refusal
// of such a ForceTransfer now, so that nobody signs for it. What takes a long search, only the transfer itself says.
func (b *Book) Receiver(ctx context.Context, id op.ReservationID, name string) (Holder, error) {
	w, err := b.handover(ctx, id, name)
	if err != nil {
		return Holder{}, err
	}
	var in inTheWay
	err = b.view(ctx, func(tx *store.Tx, now time.Time) error {
		left := b.inside
		near := b.search(tx, now, &left, w, MaxConflicts)
		near.only = w.excludes
		r, err := read(tx, id, now)
		if err == nil {
			err = near.near()
		}
		if errors.Is(err, refusal.TooComplex) {
			near.more, err = true, nil
		}
		if err == nil {
			in, err = b.admits(tx, r, w, near)
		}
		return err
	})
	if errors.Is(err, refusal.TooComplex) {
		err = nil
	}
	return w.holder, b.contested(err, in, w.holder)
}

func (r Reservation) appendCovered(text []byte) []byte {
	return fmt.Appendf(text, "%v %s %q %v %q\n", r.ID, r.Mode, r.Holder.Name, r.Holder.Account(), r.Patterns)
}

// View returns a scope and its reservations; UnknownTarget if there is no such scope.
func (b *Book) View(ctx context.Context, scope string) (v View, err error) {
	err = b.view(ctx, func(tx *store.Tx, now time.Time) (err error) {
		v, err = readView(tx, scope, now)
		return err
	})
	b.living(v.Reservations)
	return v, err
}

func readView(tx *store.Tx, scope string, now time.Time) (v View, err error) {
	if v.Scope, err = readScope(tx, scope); err != nil {
		return v, err
	}
	if err = tx.QueryRow(`SELECT last_step FROM scopes WHERE id = ?`, v.Scope.number()).Scan(&v.Last); err != nil {
		return v, err
	}
	v.Reservations, err = list(tx, sqlOfScope, v.Scope.number(), now.UnixNano())
	return v, err
}

// ForceRelease ends all reservations of a scope for a step that operators signed, and returns them as they were. If
// they differ from those that the operators saw, the answer is StaleTarget and nothing ends.
func (b *Book) ForceRelease(ctx context.Context, step op.StepID, scope string, seen op.Fingerprint) ([]Reservation, error) {
	var all []Reservation
	err := b.update(ctx, func(tx *store.Tx, out *outcome) error {
		v, err := readView(tx, scope, out.now)
		if err != nil {
			return err
		}
		if v.Fingerprint() != seen {
			return refusal.New(refusal.StaleTarget, "the reservations of %s are not those that were seen", v.Scope.Target()).
				WithHint("end the agents that work there, or have them stop; then ask again")
		}
		if err := forced(tx, out, step, v.Scope); err != nil {
			return err
		}
		all = v.Reservations
		for _, r := range all {
			if err := b.endFor(tx, out, r, signed(entry(audit.Released, theGate, r), step)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return b.living(all), nil
}

// ForceTransfer gives a reservation to a registered agent for a step that operators signed. It is StaleTarget, and the
// reservation stays, if the reservation or the receiver ended or its Handover changed. Changes of other reservations in
// the scope do not matter. A signature does not let two holders overlap, nor the receiver exceed its limit: Conflict,
// OverLimit, TooComplex and the rest are as with Transfer.
func (b *Book) ForceTransfer(ctx context.Context, step op.StepID, scope string, seen op.Fingerprint, id op.ReservationID, to string) (Reservation, error) {
	stale := refusal.New(refusal.StaleTarget, "%v or who gets it is not what was seen: it changed, or has ended", id).
		WithHint("gated reservation list shows what is in force; a new request is about that")
	w, err := b.handover(ctx, id, to)
	if w != nil && errors.Is(err, refusal.UnknownTarget) {
		err = stale
	}
	if err != nil {
		return Reservation{}, err
	}
	return b.give(ctx, w, theGate, func(tx *store.Tx, out *outcome) (Reservation, error) {
		s, err := readScope(tx, scope)
		if err != nil {
			return Reservation{}, err
		}
		r, err := read(tx, id, out.now)
		switch {
		case errors.Is(err, refusal.UnknownTarget):
			err = stale
		case err != nil:
		case r.Scope.ID != s.ID || r.Handover(w.holder) != seen:
			err = stale
		default:
			err = forced(tx, out, step, s)
		}
		return r, err
	}, func(e audit.Entry) audit.Entry { return signed(e, step) })
}

// forced records the operators' step in the scope that it changes.
func forced(tx *store.Tx, out *outcome, step op.StepID, s Scope) error {
	out.changed(s.Target())
	_, err := tx.Exec(`UPDATE scopes SET last_step = ? WHERE id = ?`, step.String(), s.number())
	return err
}

// signed puts the id of its step into an entry.
func signed(e audit.Entry, step op.StepID) audit.Entry {
	e.Job, e.Step = step.Job.String(), step.String()
	return e
}
