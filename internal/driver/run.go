package driver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/gate"
)

// Preparer is the part of a Driver that Run needs.
type Preparer interface {
	// Prepare looks at the target again and changes nothing. It refuses a step that cannot
	// work. It returns what it saw, and the action that does the step. If it takes a lock, for
	// example, it hands a function to cleanup that releases the lock. Run calls these functions
	// when the step is over, the last one first, also if Prepare fails.
	Prepare(ctx context.Context, step op.Step, cleanup func(func())) (op.Observed, Action, error)
}

// Action changes a target. Only Run can call it, after it used the step's permit. Run refuses
// the zero action before it uses the permit.
type Action struct {
	do func(context.Context, gate.Permit) (Result, error)
}

// Does returns an action that calls fn; for nil, the zero action.
func Does(fn Work) Action {
	if fn == nil {
		return Action{}
	}
	return Action{func(ctx context.Context, _ gate.Permit) (Result, error) { return fn(ctx) }}
}

// DoesWith returns an action that calls fn with the used permit, because some back ends ask for
// that permit.
func DoesWith(fn func(context.Context, gate.Permit) (Result, error)) Action { return Action{fn} }

// Around returns an action that calls fn. The parameter do runs act, at most once. Around the
// zero action is the zero action.
func Around(act Action, fn func(ctx context.Context, do Work) (Result, error)) Action {
	if act.do == nil {
		return act
	}
	return Action{func(ctx context.Context, used gate.Permit) (Result, error) {
		did := false
		return fn(ctx, func(ctx context.Context) (Result, error) {
			if did {
				return Result{}, refusal.New(refusal.Internal, "the action of %s was done already", used.Step().ID)
			}
			did = true
			return act.do(ctx, used)
		})
	}}
}

// Run lets a driver do the permit's step. Only Run uses permits and calls actions. Before it
// uses the permit, its error is a refusal by the driver or the gate. After that, the error says
// how the work ended: Transient, Unknown, or failed with the target as it was.
func Run(ctx context.Context, p gate.Permit, d Preparer) (Result, error) {
	return run(ctx, p, d, p)
}

// permit is the part of a gate.Permit that run needs. A test replaces it.
type permit interface {
	Step() op.Step
	Use(ctx context.Context, now op.Observed) error
}

func run(ctx context.Context, p permit, d Preparer, used gate.Permit) (Result, error) {
	step := p.Step()
	if step.ID == (op.StepID{}) {
		return Result{}, refusal.New(refusal.NotAllowed, "there is no permit for this")
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
		return Result{}, refusal.New(refusal.Internal, "the driver has no action for %s", step.ID)
	}
	if err := p.Use(ctx, now); err != nil {
		return Result{}, err
	}
	return act.do(ctx, used)
}

// ErrPanic marks the error of a call that panicked. If an action panicked, the driver does not
// know if the action did its work.
var ErrPanic = errors.New("panic")

// Safely calls fn, the code of a back end or a source. If fn panics, Safely returns the panic
// as an error and writes the stack to log.
func Safely(log *slog.Logger, what string, fn func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			log.Error("a panic", "in", what, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			err = fmt.Errorf("%w: %v", ErrPanic, p)
		}
	}()
	return fn()
}

// Contain returns a driver that turns a panic of d into an error. It is for callers that have
// no recover of their own.
func Contain(d Driver, log *slog.Logger) Driver {
	if _, done := d.(contained); done {
		return d
	}
	return contained{d, log}
}

type contained struct {
	Driver
	log *slog.Logger
}

// Observe looks at one target.
func (c contained) Observe(ctx context.Context, l op.Look) (o op.Observed, err error) {
	t := l.Target
	err = Safely(c.log, "a look at "+t.String(), func() (err error) { o, err = c.Driver.Observe(ctx, l); return err })
	return o, err
}

// List looks at every target.
func (c contained) List(ctx context.Context) (all []op.Observed, err error) {
	err = Safely(c.log, "a look at every "+c.Kind(), func() (err error) { all, err = c.Driver.List(ctx); return err })
	return all, err
}

// Prepare also contains the action, and each function that Run calls when the step is over.
func (c contained) Prepare(ctx context.Context, step op.Step, cleanup func(func())) (now op.Observed, act Action, err error) {
	what := "step " + step.ID.String()
	contain := func(end func()) {
		cleanup(func() { _ = Safely(c.log, what, func() error { end(); return nil }) }) // Safely logs the error
	}
	err = Safely(c.log, what, func() (err error) { now, act, err = c.Driver.Prepare(ctx, step, contain); return err })
	return now, Around(act, func(ctx context.Context, do Work) (done Result, err error) {
		err = Safely(c.log, what, func() (err error) { done, err = do(ctx); return err })
		return done, err
	}), err
}

// Task asks how a task stands.
func (c contained) Task(ctx context.Context, task string) (p Progress, err error) {
	err = Safely(c.log, "a look at task "+task, func() (err error) { p, err = c.Driver.Task(ctx, task); return err })
	return p, err
}
