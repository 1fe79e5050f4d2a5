package command

import (
	"context"
	"fmt"

	"gated/internal/driver"
	"gated/internal/gate"
	"gated/internal/op"
)

// Execute runs a command, once. What it runs are the copies that it showed to the
// permit, whatever became of their files since.
func (d *Driver) Execute(ctx context.Context, p gate.Permit) (driver.Result, error) {
	step := p.Step()
	switch {
	case step.ID == (op.StepID{}):
		return driver.Result{}, op.Refuse(op.NotAllowed, "there is no permit for this")
	case step.Op != op.Run:
		return driver.Result{}, op.Refuse(op.UnknownOp, "the command driver does not know %q", step.Op)
	}
	seen, err := d.look(ctx, step.Look(), &d.runs)
	if err != nil {
		return driver.Result{}, err
	}
	if seen == nil {
		return driver.Result{}, gone(ctx, p)
	}
	defer seen.close()
	if err := p.Use(ctx, seen.observed()); err != nil {
		return driver.Result{}, err
	}
	if d.beforeRun != nil {
		d.beforeRun()
	}
	e := d.run(ctx, job{program: seen.program, argv: seen.argv, env: seen.entry.Env, dir: seen.entry.Dir, as: seen.as,
		timeout: seen.entry.Timeout, limit: seen.entry.Output})
	return e.result(step.Target)
}

// gone lets the gate say what it means that an entry is not there any more.
func gone(ctx context.Context, p gate.Permit) error {
	t := p.Step().Target
	if err := p.Use(ctx, op.Observed{Target: t, Running: "absent"}); err != nil {
		return err
	}
	return op.Refuse(op.UnknownTarget, "the catalogue has no %s", t)
}

// result says how a run ended, with what it printed.
func (e ending) result(t op.Target) (driver.Result, error) {
	done := driver.Result{Output: e.printed.text()}
	switch {
	case e.err != nil:
		return done, op.Refuse(op.Unavailable, "%s was not started: %v", t, e.err)
	case e.cut != "":
		return done, driver.Unknown(fmt.Errorf("%s %s", t, e.cut))
	case e.signal != 0:
		return done, driver.Unknown(fmt.Errorf("%s was ended by a signal from elsewhere: %s", t, e.signal))
	case e.status != 0:
		return done, op.Refuse(op.Conflict, "%s ended with exit status %d", t, e.status).WithHint("what it printed is kept with the job")
	}
	done.Detail = "ran to its end, exit status 0"
	return done, nil
}
