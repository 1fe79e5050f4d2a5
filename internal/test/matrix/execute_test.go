package matrix_test

import (
	"context"
	"errors"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver"
	"gated/internal/gate"
	"gated/internal/reconcile"
)

// executor runs what may run, as reconcile does with one worker.
type executor struct {
	gate   *gate.Gate
	driver runner
}

// runner is what of a driver an executor needs; a host is one.
type runner interface {
	op.Observer
	driver.Preparer
}

func (w *world) executor() executor { return executor{w.gate, w.host} }

// execute runs one step to its end and returns why it was refused or failed.
func (x executor) execute(ctx context.Context, id op.StepID) error {
	p, err := x.gate.Permit(ctx, id)
	if err != nil {
		return err
	}
	_, err = driver.Run(ctx, p, x.driver)
	s, lookErr := x.step(ctx, id)
	if lookErr != nil {
		return errors.Join(err, lookErr)
	}
	if s.State == op.StateDispatched {
		return errors.Join(err, x.record(ctx, s, err))
	}
	if s.State == op.StatePlanned || s.State == op.StateAuthorized {
		if driver.IsTransient(err) || errors.Is(err, refusal.Unavailable) {
			return err
		}
		_, refuseErr := x.gate.Refuse(ctx, id, err)
		return errors.Join(err, refuseErr)
	}
	return err
}

func (x executor) step(ctx context.Context, id op.StepID) (op.Step, error) {
	j, err := x.gate.Job(ctx, id.Job)
	if err != nil {
		return op.Step{}, err
	}
	return j.Steps[id.Index-1], nil
}

func (x executor) record(ctx context.Context, s op.Step, err error) error {
	after, lookErr := x.driver.Observe(ctx, s.Look())
	out := gate.Outcome{Err: err, Transient: driver.IsTransient(err)}
	if lookErr == nil {
		out.After = &after
	}
	if driver.IsUnknown(err) {
		out = gate.Outcome{Err: err, Unknown: true}
		if lookErr == nil {
			out = reconcile.Resolve(s, after)
		}
	}
	_, recordErr := x.gate.Record(ctx, s.ID, out)
	return recordErr
}

// maxRun bounds how many steps one run may take.
const maxRun = 500

// run executes until nothing may run any more and returns the first error.
func (x executor) run(ctx context.Context) error {
	var first error
	for range maxRun {
		targets, err := x.gate.OpenTargets(ctx)
		if err != nil {
			return err
		}
		ran := false
		for _, t := range targets {
			id, ok, err := x.gate.Runnable(ctx, t)
			if err != nil {
				return err
			}
			if !ok {
				continue
			}
			ran = true
			if err := x.execute(ctx, id); err != nil && first == nil {
				first = err
			}
		}
		if !ran {
			return first
		}
	}
	return errors.New("steps go on for ever")
}

// runAll runs everything that may run.
func (w *world) runAll() error { return w.executor().run(w.ctx) }

// runJob submits and runs a job, and returns what kept it from succeeding.
func (w *world) runJob(by op.Requester, asks ...op.Ask) error {
	j, err := w.submit(by, asks...)
	if err != nil {
		return err
	}
	if err := w.runAll(); err != nil {
		return err
	}
	if j, err = w.gate.Job(w.ctx, j.ID); err != nil {
		return err
	}
	return unlessDone(j)
}

// unlessDone is the state of a job that did not succeed, as an error.
func unlessDone(j op.Job) error {
	if s := j.State(); s != op.StateSucceeded {
		return refusal.Code(s)
	}
	return nil
}
