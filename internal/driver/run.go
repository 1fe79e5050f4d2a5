package driver

import (
	"context"
	"slices"

	"gated/internal/gate"
	"gated/internal/op"
)

// Preparer is what Run needs of a Driver.
type Preparer interface {
	// Prepare looks at a step's target again, refuses what it can see will not
	// work, and returns what it saw and what does the step. It changes nothing.
	// What it takes for the step, a lock for example, it gives back in a function
	// that it hands to cleanup: Run calls these, the last one first, when the step
	// is over, also if Prepare fails.
	Prepare(ctx context.Context, step op.Step, cleanup func(func())) (op.Observed, Action, error)
}

// Action is what changes a target. Run alone can call it, after it used the
// step's permit. Run refuses the zero action before that.
type Action struct {
	do func(context.Context, gate.Permit) (Result, error)
}

// Does returns the action that fn is, the zero action for nil.
func Does(fn func(context.Context) (Result, error)) Action {
	if fn == nil {
		return Action{}
	}
	return Action{func(ctx context.Context, _ gate.Permit) (Result, error) { return fn(ctx) }}
}

// DoesWith returns the action that fn is, for a back end that asks for the used permit.
func DoesWith(fn func(context.Context, gate.Permit) (Result, error)) Action { return Action{fn} }

// Around returns an action that calls fn, which may call do once to have act done.
// Around the zero action is the zero action.
func Around(act Action, fn func(ctx context.Context, do func(context.Context) (Result, error)) (Result, error)) Action {
	if act.do == nil {
		return act
	}
	return Action{func(ctx context.Context, used gate.Permit) (Result, error) {
		did := false
		return fn(ctx, func(ctx context.Context) (Result, error) {
			if did {
				return Result{}, op.Refuse(op.Internal, "the action of %s was done already", used.Step().ID)
			}
			did = true
			return act.do(ctx, used)
		})
	}}
}

// Run has a driver run the permit's step, and is the only place that uses permits
// and calls actions. An error from before the permit was used is the driver's or
// the gate's refusal. One from after it says how the work ended: Transient,
// Unknown, or else that it failed and left the target as it was.
func Run(ctx context.Context, p gate.Permit, d Preparer) (Result, error) {
	return run(ctx, p, d, p)
}

// permit is what run needs of a gate.Permit, so that a test can give the answers.
type permit interface {
	Step() op.Step
	Use(ctx context.Context, now op.Observed) error
}

func run(ctx context.Context, p permit, d Preparer, used gate.Permit) (Result, error) {
	step := p.Step()
	if step.ID == (op.StepID{}) {
		return Result{}, op.Refuse(op.NotAllowed, "there is no permit for this")
	}
	spec, err := op.Lookup(step.Op)
	if err == nil {
		err = spec.Check(step.Target, step.Params)
	}
	if err != nil {
		return Result{}, err
	}
	var ends []func()
	defer func() {
		for _, end := range slices.Backward(ends) {
			end()
		}
	}()
	now, act, err := d.Prepare(ctx, step, func(end func()) { ends = append(ends, end) })
	if err != nil {
		return Result{}, err
	}
	if act.do == nil {
		return Result{}, op.Refuse(op.Internal, "the driver has no action for %s", step.ID)
	}
	if err := p.Use(ctx, now); err != nil {
		return Result{}, err
	}
	return act.do(ctx, used)
}
