package driver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"

	"gated/internal/base/op"
)

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
