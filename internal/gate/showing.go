package gate

import (
	"context"
	"errors"
	"time"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/log/journal"
)

// How long a benign step waits if it would change what operators were shown. The
// whole counts from the first showing of a payload. So an operator who reads or
// signs again and again cannot keep a step waiting longer. After a pause, in which
// benign steps ran, an operator may take the time to read once more.
const (
	showingHold = 5 * time.Minute  // from the last showing
	signedHold  = 15 * time.Minute // from the last signature that counted
	wholeHold   = 30 * time.Minute // of one payload, without a pause
	// showingPause is the time after a first showing when the next one counts as a
	// first one again.
	showingPause = 2 * wholeHold
	// showingGrain is the least time between two showings that are both written.
	showingGrain = 20 * time.Second
)

// ShowPayload records that an operator read the payload of a request, in order to
// sign it. For some minutes no benign step may change what the payload covers. The
// caller has checked that the reader is an operator, not an agent.
func (g *Gate) ShowPayload(ctx context.Context, id op.RequestID) error {
	now := g.clock.Now().Now
	fresh := func(tx *store.Tx) (bool, error) {
		s, err := journal.ReadStep(tx, id)
		if err != nil || s.State != op.StatePending {
			return false, err
		}
		was, shown, err := journal.ShownAt(tx, id)
		return err == nil && (!shown || now.Sub(was.Last) >= showingGrain || now.Sub(was.First) >= showingPause), err
	}
	var due bool
	err := g.view(ctx, func(tx *store.Tx) (err error) { due, err = fresh(tx); return err })
	if err != nil || !due {
		return err
	}
	return g.machine(g.update(ctx, func(tx *store.Tx) error {
		if due, err := fresh(tx); err != nil || !due {
			return err
		}
		return journal.Show(tx, id, now, showingPause)
	}))
}

// Wait says which request a benign step waits for, and until when at the latest.
type Wait struct {
	For    op.RequestID
	Signed bool // the request is authorized, and has not run yet
	Until  time.Time
}

// Why returns the reason as a sentence for people.
func (w Wait) Why() string {
	until := "; until " + w.Until.UTC().Format(time.RFC3339) + " at the latest"
	if w.Signed {
		return "it waits until " + w.For.String() + " has run, which operators signed for the target as it is" + until
	}
	return "it waits, because an operator decides about " + w.For.String() + " by how the target looks now" + until
}

// alters reports whether a benign step can change what a signature over the target's
// state covers.
func alters(s op.Step) bool {
	spec, err := op.Lookup(s.Op)
	if err != nil || spec.Runtime || s.Target.Kind != op.KindGuest {
		return false
	}
	return spec.Guarded == nil || len(spec.Guarded(s.Params)) > 0
}

// waitsFor returns the request that a planned step waits for, if an operator was
// shown or signed one.
func (g *Gate) waitsFor(tx *store.Tx, s op.Step) (w Wait, waits bool, err error) {
	if s.State != op.StatePlanned || !alters(s) {
		return w, false, nil
	}
	return g.heldFor(tx, s.Target, s.ID.Job)
}

// Still refuses, as Unavailable, a change of the whole target while an operator
// decides about it. Reservations of a scope call it, because they are not steps.
func (g *Gate) Still(tx *store.Tx, t op.Target) error {
	w, waits, err := g.heldFor(tx, t, 0)
	if err != nil || !waits {
		return err
	}
	return refusal.New(refusal.Unavailable,
		"an operator decides about %s by who holds which paths now, so nothing is granted until %s at the latest",
		w.For, w.Until.UTC().Format(time.RFC3339)).WithHint("try again then; gated jobs %s shows its state", w.For.Job)
}

// heldFor returns the request for which a target must not change. Another job made
// that request, an operator was shown or signed it, and its signature covers the
// whole target.
func (g *Gate) heldFor(tx *store.Tx, t op.Target, except op.JobID) (w Wait, waits bool, err error) {
	open, err := journal.OpenSteps(tx, t)
	if err != nil {
		return w, false, err
	}
	now := g.clock.Now().Now
	for _, o := range open {
		if o.ID.Job == except || o.State != op.StatePending && o.State != op.StateAuthorized {
			continue
		}
		if spec, err := op.Lookup(o.Op); err == nil && spec.Partial {
			continue
		}
		until, err := heldUntil(tx, o)
		if err != nil {
			return w, false, err
		}
		if until.After(now) && until.After(w.Until) {
			w, waits = Wait{For: o.ID, Signed: o.State == op.StateAuthorized, Until: until}, true
		}
	}
	return w, waits, nil
}

// heldUntil returns until when the target of a request must not change. If the step
// is authorized, that is while its approval is valid; otherwise it is the time that
// operators need to read and sign.
func heldUntil(tx *store.Tx, s op.Step) (time.Time, error) {
	id := s.ID
	if s.State == op.StateAuthorized {
		r, err := journal.RequestOf(tx, s)
		return r.ExpiresAt.Add(Skew), err
	}
	shown, ok, err := journal.ShownAt(tx, id)
	if err != nil {
		return time.Time{}, err
	}
	signed, err := journal.LastSigned(tx, id)
	if err != nil || !ok && signed.IsZero() {
		return time.Time{}, err
	}
	first, until := signed, time.Time{}
	if ok {
		first, until = shown.First, shown.Last.Add(showingHold)
	}
	if !signed.IsZero() {
		until = latest(until, signed.Add(signedHold))
	}
	if whole := first.Add(wholeHold); whole.Before(until) {
		until = whole
	}
	return until, nil
}

// WaitsFor returns the request that a step waits for, if an operator was shown or
// signed one.
func (g *Gate) WaitsFor(ctx context.Context, s op.Step) (w Wait, waits bool, err error) {
	err = g.view(ctx, func(tx *store.Tx) error { w, waits, err = g.waitsFor(tx, s); return err })
	return w, waits, err
}

// wakeShown wakes the targets whose benign steps have waited long enough, and
// deletes the showings of closed requests.
func (g *Gate) wakeShown(ctx context.Context) error {
	var over []op.RequestID
	now := g.clock.Now().Now
	err := g.view(ctx, func(tx *store.Tx) error {
		ids, err := journal.ShownRequests(tx, tickBatch)
		for _, id := range ids {
			s, e := journal.ReadStep(tx, id)
			if err = errors.Join(err, e); err != nil {
				return err
			}
			if !s.State.Open() {
				over = append(over, id)
			} else if until, e := heldUntil(tx, s); e == nil && !until.After(now) {
				g.wake(s.Target) // the record stays, so a showing soon afterwards keeps no step waiting
			}
		}
		return err
	})
	if len(over) == 0 {
		return err
	}
	return errors.Join(err, g.machine(g.store.Update(ctx, func(tx *store.Tx) error {
		for _, id := range over {
			if err := journal.ForgetShowing(tx, id); err != nil {
				return err
			}
		}
		return nil
	})))
}
