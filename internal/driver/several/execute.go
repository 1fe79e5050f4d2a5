package several

import (
	"context"
	"strings"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver"
)

// taskSep stands between the name of a back end and the back end's id of a task.
const taskSep = ":"

// Prepare lets a back end prepare the step: the one that has the target now, or the one that
// would make it. The driver looks in all of them. It refuses a name that another back end has
// meanwhile. If no back end has the name and one is away, the step waits.
func (d *Driver) Prepare(ctx context.Context, step op.Step, cleanup func(func())) (op.Observed, driver.Action, error) {
	i, _, err := d.locate(ctx, step.Look())
	if err != nil {
		return op.Observed{}, driver.Action{}, err
	}
	m := d.members[i]
	now, act, err := m.Prepare(ctx, step, cleanup)
	return now, driver.Around(act, func(ctx context.Context, do driver.Work) (driver.Result, error) {
		done, err := do(ctx)
		if done.Task != "" {
			done.Task = m.name + taskSep + done.Task
		}
		return done, err
	}), err
}

// Task asks the back end of the task. If that back end is not configured any more, it counts as
// away, because only it has the task's result.
func (d *Driver) Task(ctx context.Context, task string) (driver.Progress, error) {
	name, id, ok := strings.Cut(task, taskSep)
	if !ok {
		return driver.Progress{}, refusal.New(refusal.UnknownTarget, "no back end gave a task the id %q", task)
	}
	i := d.named(name)
	if i < 0 {
		return driver.Progress{}, refusal.New(refusal.Unavailable, "task %s is of the back end %s, which is not configured",
			task, op.Shown(name)).
			WithHint("configure it again until its tasks have ended")
	}
	m := d.members[i]
	if len(d.members) == 1 {
		return m.Task(ctx, id)
	}
	return ask(ctx, &m.looks, func(ctx context.Context) (driver.Progress, error) { return m.Task(ctx, id) })
}
