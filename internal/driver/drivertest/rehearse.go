package drivertest

import (
	"context"
	"slices"

	"gated/internal/base/op"
	"gated/internal/driver"
)

// Permit replaces a gate.Permit in a driver's own tests.
type Permit interface {
	Step() op.Step
	Use(ctx context.Context, now op.Observed) error
}

// Rehearse does with a test's permit what driver.Run does with a gate's. A driver gives it the
// function below its Prepare, because no test can call a driver.Action.
func Rehearse(ctx context.Context, p Permit, prepare func(context.Context, op.Step, func(func())) (
	op.Observed, driver.Work, error)) (driver.Result, error) {
	step := p.Step()
	spec, err := op.Lookup(step.Op)
	if err == nil {
		err = spec.Check(step.Target, step.Params)
	}
	if err != nil {
		return driver.Result{}, err
	}
	var ends []func()
	defer func() {
		for _, end := range slices.Backward(ends) {
			end()
		}
	}()
	now, do, err := prepare(ctx, step, func(end func()) { ends = append(ends, end) })
	if err == nil {
		err = p.Use(ctx, now)
	}
	if err != nil {
		return driver.Result{}, err
	}
	return do(ctx)
}
