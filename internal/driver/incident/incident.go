// Package incident is the driver of the single target incident/open: what break-glass signatures approved and no operator
// has reviewed. A review closes it.
package incident

import (
	"context"
	"strings"
	"time"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver"
	"gated/internal/gate"
	"gated/internal/log/journal"
)

// Gate is the part of a gate that the driver needs; *gate.Gate implements it.
type Gate interface {
	ID() op.GateID
	Incidents(ctx context.Context) (journal.Incidents, error)
	Review(ctx context.Context, p gate.Permit) error
}

// Driver is the driver of incidents. It has no state.
type Driver struct{ gate Gate }

var _ driver.Driver = Driver{}

// New returns the driver of a gate. The target's incarnation is the gate's id, so no signature counts after a restore.
func New(g Gate) Driver { return Driver{g} }

// Kind returns "incident".
func (Driver) Kind() string { return op.KindIncident }

// Observe looks at the open incidents. The fingerprint covers those whose steps have ended, because a review closes them.
func (d Driver) Observe(ctx context.Context, l op.Look) (op.Observed, error) {
	if l.Target != op.Incidents {
		return op.Observed{Target: l.Target}, nil
	}
	in, err := d.gate.Incidents(ctx)
	if err != nil {
		return op.Observed{}, err
	}
	o := op.Observed{Target: l.Target, Present: true, Incarnation: op.Incarnation(d.gate.ID()), Fingerprint: in.Fingerprint(), Spec: op.Params{}}
	if in.ReviewedBy != (op.StepID{}) {
		o.Spec["reviewed_by"] = in.ReviewedBy.String()
	}
	for _, one := range in.Ended {
		o.Facts = append(o.Facts, op.Fact{Name: one.Request.ID.String(), Text: describe(one)})
	}
	for _, one := range in.UnderWay {
		o.Facts = append(o.Facts, op.Fact{Name: one.Request.ID.String(), Text: describe(one) + "; it has not ended, and stays open"})
	}
	return o, nil
}

// describe says what was approved, by which people, and how it ended.
func describe(in journal.Incident) string {
	s := in.Request.Step
	var who []string
	for _, by := range in.Request.Signatures {
		who = append(who, op.ShownName(by.Principal)+" as "+string(by.Role))
	}
	text := s.Op + " of " + s.Target.String() + ": " + string(s.State) + "; approved at " + in.At.UTC().Format(time.RFC3339) + " by " + strings.Join(who, ", ")
	for _, by := range in.Request.Signatures {
		if by.Reason != "" {
			text += "; " + op.ShownName(by.Principal) + " said " + op.ShownQuoted(by.Reason)
		}
	}
	return text
}

// List returns the one target.
func (d Driver) List(ctx context.Context) ([]op.Observed, error) {
	o, err := d.Observe(ctx, op.At(op.Incidents))
	return []op.Observed{o}, err
}

// Prepare looks at the incidents. Its action closes those that were signed.
func (d Driver) Prepare(ctx context.Context, step op.Step, _ func(func())) (op.Observed, driver.Action, error) {
	if step.Op != op.Review {
		return op.Observed{}, driver.Action{}, refusal.New(refusal.UnknownOp, "the incident driver does not know %q", step.Op)
	}
	now, err := d.Observe(ctx, step.Look())
	return now, driver.DoesWith(d.review), err
}

// review closes the incidents. When it returns nil, that is in the database on disk.
func (d Driver) review(ctx context.Context, used gate.Permit) (driver.Result, error) {
	err := d.gate.Review(ctx, used)
	switch refusal.CodeOf(err) {
	case "", refusal.StaleTarget, refusal.NotAllowed:
		return driver.Result{}, err // the gate refused and changed nothing
	default:
		return driver.Result{}, driver.Unknown(err)
	}
}

// Task reports that there is no such task, because a review is done when its action returns.
func (Driver) Task(_ context.Context, task string) (driver.Progress, error) {
	return driver.Progress{}, refusal.New(refusal.UnknownTarget, "there is no task %q", task)
}
