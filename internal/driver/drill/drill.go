// Package drill is the driver of the single target drill/signatures. A drill has people sign as for another operation, and
// its work is to change nothing.
package drill

import (
	"context"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver"
)

// Driver is the drill driver. It has no state.
type Driver struct{ gate op.GateID }

var _ driver.Driver = Driver{}

// New returns the driver of a gate. The target's incarnation is the gate's id, so no signature counts after a restore.
func New(gate op.GateID) Driver { return Driver{gate} }

// Kind returns "drill".
func (Driver) Kind() string { return op.KindDrill }

// Observe looks at the one target, which is always as it was. For a drill it says what that rehearses.
func (d Driver) Observe(_ context.Context, l op.Look) (op.Observed, error) {
	if l.Target != op.Drilled {
		return op.Observed{Target: l.Target}, nil
	}
	o := op.Observed{Target: l.Target, Present: true, Incarnation: op.Incarnation(d.gate), Spec: op.Params{},
		Fingerprint: op.FingerprintOf([]byte("drill of gate " + string(d.gate)))}
	if l.Op == op.Drill {
		o.Facts = []op.Fact{{Name: "rehearses", Text: op.Rehearses(l.Params)}, {Name: "changes", Text: "nothing"}}
	}
	return o, nil
}

// List returns the one target.
func (d Driver) List(ctx context.Context) ([]op.Observed, error) {
	o, err := d.Observe(ctx, op.At(op.Drilled))
	return []op.Observed{o}, err
}

// Prepare looks at the target. Its action does nothing, and says so.
func (d Driver) Prepare(ctx context.Context, step op.Step, _ func(func())) (op.Observed, driver.Action, error) {
	if step.Op != op.Drill {
		return op.Observed{}, driver.Action{}, refusal.New(refusal.UnknownOp, "the drill driver does not know %q", step.Op)
	}
	now, err := d.Observe(ctx, step.Look())
	return now, driver.Does(func(context.Context) (driver.Result, error) {
		return driver.Result{Detail: "nothing was changed"}, nil
	}), err
}

// Task reports that there is no such task, because a drill is done when its action returns.
func (Driver) Task(_ context.Context, task string) (driver.Progress, error) {
	return driver.Progress{}, refusal.New(refusal.UnknownTarget, "there is no task %q", task)
}
