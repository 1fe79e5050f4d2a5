package command

import (
	"context"
	"fmt"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver"
)

// Prepare copies and hashes the programs. The action runs the copies once, even if the files
// changed since.
func (d *Driver) Prepare(ctx context.Context, step op.Step, cleanup func(func())) (op.Observed, driver.Action, error) {
	if step.Op != op.Run {
		return op.Observed{}, driver.Action{}, refusal.New(refusal.UnknownOp, "the command driver does not know %q", step.Op)
	}
	seen, err := d.look(ctx, step.Look(), &d.runs)
	if err != nil {
		return op.Observed{}, driver.Action{}, err
	}
	if seen == nil {
		now, act := gone(step.Target)
		return now, act, nil
	}
	cleanup(seen.close)
	return seen.observed(), driver.Does(func(ctx context.Context) (driver.Result, error) {
		if d.beforeRun != nil {
			d.beforeRun()
		}
		e := d.run(ctx, job{program: seen.program, argv: seen.argv, env: seen.entry.Env, dir: seen.entry.Dir, as: seen.as,
			timeout: seen.entry.Timeout, limit: seen.entry.Output})
		return e.result(step.Target)
	}), nil
}

// gone lets the gate decide about an entry that no longer exists.
func gone(t op.Target) (op.Observed, driver.Action) {
	return op.Observed{Target: t, Running: "absent"}, driver.Does(func(context.Context) (driver.Result, error) {
		return driver.Result{}, refusal.New(refusal.UnknownTarget, "the catalogue has no %s", t)
	})
}

// result describes the end of a run, with its output.
func (e ending) result(t op.Target) (driver.Result, error) {
	done := driver.Result{Output: e.printed.text()}
	switch {
	case e.err != nil:
		return done, refusal.New(refusal.Unavailable, "%s was not started: %v", t, e.err)
	case e.cut != "":
		return done, driver.Unknown(fmt.Errorf("%s %s", t, e.cut))
	case e.signal != 0:
		return done, driver.Unknown(fmt.Errorf("%s was ended by a signal from elsewhere: %s", t, e.signal))
	case e.status != 0:
		return done, refusal.New(refusal.Conflict, "%s ended with exit status %d", t, e.status).
			WithHint("what it printed is kept with the job")
	}
	done.Detail = "ran to its end, exit status 0"
	return done, nil
}
