// Package scope is the driver of the directories in which agents reserve paths. A step of this
// driver is the only way to take a reservation from an agent that wants to keep it.
package scope

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"gated/internal/agents/reserve"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver"
)

// Book is the part of the reservations that the driver needs; *reserve.Book implements it.
type Book interface {
	Scopes(ctx context.Context) ([]reserve.Scope, error)
	View(ctx context.Context, scope string) (reserve.View, error)
	Receiver(ctx context.Context, id op.ReservationID, name string) (reserve.Holder, error)
	ForceRelease(ctx context.Context, step op.StepID, scope string, seen op.Fingerprint) ([]reserve.Reservation, error)
	ForceTransfer(ctx context.Context, step op.StepID, scope string, seen op.Fingerprint, id op.ReservationID, to string) (reserve.Reservation, error)
}

// Driver is the scope driver. It is safe for concurrent use.
type Driver struct {
	book   Book
	eyes   *eyes
	member string // of this host; empty on a gate without callers of other members
}

var _ driver.Driver = (*Driver)(nil)

// New returns the driver over a book. It looks at directories of this host, which is that of the member.
func New(b Book, member string) *Driver {
	return &Driver{book: b, eyes: newEyes(lstat), member: member}
}

// Kind returns "scope".
func (*Driver) Kind() string { return op.KindScope }

// Observe looks at a scope's reservations and at its directory. If another directory or a link
// is in that place now, the scope is gone. If the daemon cannot see the directory, the
// registration counts, and a fact says so.
func (d *Driver) Observe(ctx context.Context, l op.Look) (op.Observed, error) {
	t := l.Target
	if t.Kind != op.KindScope {
		return op.Observed{Target: t}, nil
	}
	v, err := d.book.View(ctx, t.Name)
	if errors.Is(err, refusal.UnknownTarget) {
		return op.Observed{Target: t}, nil
	}
	if err != nil {
		return op.Observed{Target: t}, err
	}
	s, err := d.look(ctx, v.Scope.Place)
	if err != nil || s.another {
		return op.Observed{Target: t}, err
	}
	o := op.Observed{Target: t, Present: true, Incarnation: v.Scope.Incarnation(), Fingerprint: v.Fingerprint(),
		Spec: op.Params{"last_step": v.Last}, Facts: facts(v, s)}
	if l.Op == op.ForceTransfer {
		err = d.one(ctx, &o, v, s, l.Params)
	}
	return o, err
}

// look looks at a directory of this host. In another place, or a shared scope, the registration counts.
func (d *Driver) look(ctx context.Context, p reserve.Place) (sight, error) {
	switch {
	case p.In == d.member:
		return d.eyes.at(ctx, p)
	case p.In == "":
		return sight{hidden: "it is from before the gate had members"}, nil
	}
	return sight{hidden: "it is a path of " + p.In}, nil
}

// one reduces a look to the reservation that the step transfers, and says what the book would refuse. An agent that is not
// registered is a part that is missing: if it comes back, it is another receiver.
func (d *Driver) one(ctx context.Context, o *op.Observed, v reserve.View, s sight, p op.Params) error {
	id := p.Str("reservation")
	i := slices.IndexFunc(v.Reservations, func(r reserve.Reservation) bool { return r.ID.String() == id })
	if i < 0 {
		o.Missing = fmt.Sprintf("there is no %s in %s: it has ended, or is another scope's", id, o.Target)
		return nil
	}
	r := v.Reservations[i]
	to, err := d.book.Receiver(ctx, r.ID, p.Str("to"))
	switch refusal.CodeOf(err) {
	case refusal.UnknownTarget:
		r := refusal.As(err)
		o.Missing, o.Clear = r.Detail, r.Hint
		return nil
	case refusal.Unavailable, refusal.Internal:
		return err
	}
	o.Foresee(err)
	o.Fingerprint, o.Facts = r.Handover(to), factsOfOne(v, s, r, to)
	return nil
}

// List returns the scopes whose directories exist.
func (d *Driver) List(ctx context.Context) ([]op.Observed, error) {
	scopes, err := d.book.Scopes(ctx)
	if err != nil {
		return nil, err
	}
	var out []op.Observed
	for _, s := range scopes {
		o, err := d.Observe(ctx, op.At(s.Target()))
		if err != nil {
			return nil, err
		}
		if o.Present {
			out = append(out, o)
		}
	}
	return out, nil
}

// Prepare looks; the action releases or transfers. In its transaction, the book compares its
// reservations with those that the permit was used on. If they changed in between, it refuses
// with StaleTarget and changes nothing.
func (d *Driver) Prepare(ctx context.Context, s op.Step, _ func(func())) (now op.Observed, act driver.Action, err error) {
	if s.Op != op.ReleaseAll && s.Op != op.ForceTransfer {
		return now, act, refusal.New(refusal.UnknownOp, "the scope driver does not know %q", s.Op)
	}
	now, err = d.Observe(ctx, s.Look())
	return now, driver.Does(func(ctx context.Context) (driver.Result, error) {
		if s.Op == op.ReleaseAll {
			_, err := d.book.ForceRelease(ctx, s.ID, s.Target.Name, now.Fingerprint)
			return driver.Result{}, worded(err)
		}
		id, err := op.ParseReservationID(s.Params.Str("reservation"))
		if err == nil {
			_, err = d.book.ForceTransfer(ctx, s.ID, s.Target.Name, now.Fingerprint, id, s.Params.Str("to"))
		}
		return driver.Result{}, worded(err)
	}), err
}

// untouched are the codes of refusals that the book returns before it writes. After any other
// error it is not known what is on disk.
var untouched = []refusal.Code{refusal.StaleTarget, refusal.UnknownTarget, refusal.Conflict, refusal.OverLimit,
	refusal.TooComplex, refusal.BadParams, refusal.Malformed,
	refusal.NotAllowed, refusal.NotHolder}

func worded(err error) error {
	if err == nil || slices.Contains(untouched, refusal.CodeOf(err)) {
		return err
	}
	return driver.Unknown(err)
}

// Task reports that there is no such task, because all work is done when an action returns.
func (*Driver) Task(_ context.Context, task string) (driver.Progress, error) {
	return driver.Progress{}, refusal.New(refusal.UnknownTarget, "there is no task %q", task)
}
