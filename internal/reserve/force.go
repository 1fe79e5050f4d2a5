package reserve

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gated/internal/audit"
	"gated/internal/op"
	"gated/internal/store"
)

// View is a scope with the reservations in force there, as one moment had them.
type View struct {
	Scope        Scope
	Reservations []Reservation // by id
	Last         string        // the step of operators that was applied last, "j12.1"; or ""
}

// Fingerprint digests what operators decide about: which reservations there are,
// of which paths, in which mode and whose. Times and reasons are not in it.
func (v View) Fingerprint() op.Fingerprint {
	text := fmt.Appendf(nil, "scope %s\n", v.Scope.ID)
	for _, r := range v.Reservations {
		text = r.appendCovered(text)
	}
	return op.FingerprintOf(text)
}

// Handover digests what operators decide about where it is this one alone that
// they give to somebody else: the same of it, which scope it is in, and who gets
// it. That is one registration: whoever has its name later is somebody else.
func (r Reservation) Handover(to Holder) op.Fingerprint {
	text := r.appendCovered(fmt.Appendf(nil, "one of scope %s\n", r.Scope.ID))
	return op.FingerprintOf(fmt.Appendf(text, "to %q %d %d\n", to.Name, to.UID, to.Registration))
}

// Receiver returns who would get what is given to an agent of that name now:
// without a registration where there is none.
func (b *Book) Receiver(name string) Holder {
	if h, ok := b.cfg.Agent(name); ok {
		return h
	}
	return Holder{Name: name}
}

func (r Reservation) appendCovered(text []byte) []byte {
	return fmt.Appendf(text, "%v %s %q %d %q\n", r.ID, r.Mode, r.Holder.Name, r.Holder.UID, r.Patterns)
}

// View returns a scope and its reservations; UnknownTarget for an id that there
// is not.
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

// ForceRelease ends all reservations of a scope for a step that operators signed,
// and returns them as they were. If they are not those that were seen, it is
// StaleTarget and nothing ends.
func (b *Book) ForceRelease(ctx context.Context, step op.StepID, scope string, seen op.Fingerprint) ([]Reservation, error) {
	var all []Reservation
	err := b.update(ctx, func(tx *store.Tx, out *outcome) error {
		v, err := readView(tx, scope, out.now)
		if err != nil {
			return err
		}
		if v.Fingerprint() != seen {
			return op.Refuse(op.StaleTarget, "the reservations of %s are not those that were seen", v.Scope.Target()).
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

// ForceTransfer gives a reservation to a registered agent for a step that
// operators signed. If it or the receiver is not as it was seen, by its Handover,
// or has ended, it is StaleTarget and stays; what happens to others of the scope is nobody's
// concern here. A signature takes a reservation from somebody; it does not make
// two holders overlap, nor give the receiver more than its limit: Conflict,
// OverLimit, TooComplex and the rest are as with Transfer.
func (b *Book) ForceTransfer(ctx context.Context, step op.StepID, scope string, seen op.Fingerprint, id op.ReservationID, to string) (Reservation, error) {
	receiver, err := b.receiver(to)
	if err != nil {
		return Reservation{}, err
	}
	stale := op.Refuse(op.StaleTarget, "%v or who gets it is not what was seen: it changed, or has ended", id).
		WithHint("gated reservations shows what is in force; a new request is about that")
	w, err := b.handover(ctx, id, receiver)
	if errors.Is(err, op.UnknownTarget) {
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
		case errors.Is(err, op.UnknownTarget):
			err = stale
		case err != nil:
		case r.Scope.ID != s.ID || r.Handover(receiver) != seen:
			err = stale
		default:
			err = forced(tx, out, step, s)
		}
		return r, err
	}, func(e audit.Entry) audit.Entry { return signed(e, step) })
}

// forced records operators' step with the scope that it changes.
func forced(tx *store.Tx, out *outcome, step op.StepID, s Scope) error {
	out.changed(s.Target())
	_, err := tx.Exec(`UPDATE scopes SET last_step = ? WHERE id = ?`, step.String(), s.number())
	return err
}

// signed says which step an entry belongs to.
func signed(e audit.Entry, step op.StepID) audit.Entry {
	e.Job, e.Step = step.Job.String(), step.String()
	return e
}
