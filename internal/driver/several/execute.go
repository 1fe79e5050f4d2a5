package several

import (
	"context"
	"strings"

	"gated/internal/driver"
	"gated/internal/gate"
	"gated/internal/op"
)

// taskSep stands between the name of a back end and its own id of a task.
const taskSep = ":"

// Execute has the step run by the back end that has its target now, or in which
// it is to be made. Which one that is is settled before the permit is used, by
// asking all: a name that another one has by now is refused, and one that is in
// none waits while one is away.
func (d *Driver) Execute(ctx context.Context, p gate.Permit) (driver.Result, error) {
	step := p.Step()
	if step.ID == (op.StepID{}) {
		return driver.Result{}, op.Refuse(op.NotAllowed, "there is no permit for this")
	}
	i, _, err := d.locate(ctx, step.Look())
	if err != nil {
		return driver.Result{}, err
	}
	done, err := d.members[i].Execute(ctx, p)
	if done.Task != "" {
		done.Task = d.members[i].name + taskSep + done.Task
	}
	return done, err
}

// Task asks the back end that the task is of. One that is not configured any
// more is away: only it knows what became of the task.
func (d *Driver) Task(ctx context.Context, task string) (driver.Progress, error) {
	name, id, ok := strings.Cut(task, taskSep)
	if !ok {
		return driver.Progress{}, op.Refuse(op.UnknownTarget, "no back end gave a task the id %q", task)
	}
	i := d.named(name)
	if i < 0 {
		return driver.Progress{}, op.Refuse(op.Unavailable, "task %s is of the back end %s, which is not configured", task, op.Shown(name)).
			WithHint("configure it again until its tasks have ended")
	}
	m := d.members[i]
	if len(d.members) == 1 {
		return m.Task(ctx, id)
	}
	return ask(ctx, &m.looks, func(ctx context.Context) (driver.Progress, error) { return m.Task(ctx, id) })
}
