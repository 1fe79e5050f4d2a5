package command

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver"
	"gated/internal/driver/command/catalogue"
)

// grace is the time that a program has between SIGTERM and SIGKILL.
const grace = 5 * time.Second

// Config is the configuration of the driver.
type Config struct {
	Entries    map[string]catalogue.Entry // the operator's entries, each checked
	SingleUser bool                       // commands may run as the daemon's own user
	Asks       func(uid uint32) bool      // whether a user may ask for steps; nil means that all may
	Logger     *slog.Logger
	Grace      time.Duration // from SIGTERM to SIGKILL; 0 is 5 s
	// Now tells the age of a file. A list remembers no digest of a new file. If Now is nil, it
	// remembers none.
	Now func() time.Time
}

// Driver is the command driver. It is safe for concurrent use.
type Driver struct {
	cfg         Config
	looks, runs copies // the room for the copies of looks and of runs
	digests     digests

	// beforeRun is called between the permit's use and the start. Only tests set it.
	beforeRun func()
}

var _ driver.Backend = (*Driver)(nil)

// New returns the driver. It looks at no program: a look reports an entry that cannot run.
func New(c Config) *Driver {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Grace == 0 {
		c.Grace = grace
	}
	return &Driver{cfg: c, looks: copies{most: maxCopies}, runs: copies{most: maxCopies}, digests: digests{now: c.Now}}
}

// Kind returns "command".
func (*Driver) Kind() string { return op.KindCommand }

// Name returns "command".
func (*Driver) Name() string { return "command" }

// Task reports that there is no such task, because a command is over when its action returns.
func (*Driver) Task(_ context.Context, task string) (driver.Progress, error) {
	return driver.Progress{}, refusal.New(refusal.UnknownTarget, "there is no task %q", task)
}

// Check looks if each entry could run. It runs nothing.
func (d *Driver) Check(ctx context.Context) []driver.Finding {
	out := []driver.Finding{}
	if d.cfg.SingleUser {
		out = append(out, driver.Finding{What: "isolation", State: driver.Note,
			Detail: "single_user is true: commands may run as gated's own user, and could change the gate itself",
			Hint:   "run gated as root with single_user: false, and name a user for each command"})
	}
	if len(d.cfg.Entries) == 0 {
		out = append(out, driver.Finding{What: "commands", State: driver.Note, Detail: "the catalogue is empty"})
	}
	roots := map[string]swap{}
	for _, name := range slices.Sorted(maps.Keys(d.cfg.Entries)) {
		out = append(out, d.checkEntry(ctx, name))
		out = append(out, d.checkPaths(ctx, name, d.cfg.Entries[name], roots)...)
	}
	return out
}

func (d *Driver) checkEntry(ctx context.Context, name string) driver.Finding {
	t := op.Target{Kind: op.KindCommand, Name: name}
	f := driver.Finding{What: t.String(), State: driver.OK}
	seen, err := d.look(ctx, op.At(t), nil)
	if err != nil {
		f.State, f.Detail, f.Hint = driver.Bad, detail(err), refusal.As(err).Hint
		return f
	}
	defer seen.close()
	f.Detail = fmt.Sprintf("%s as %s, sha256:%s", seen.program.path, seen.as.Name, seen.program.digest)
	switch {
	case seen.as.Own:
		f.State, f.Hint = driver.Note, "it runs as gated's own user; name another"
	case seen.probe == nil && !seen.entry.Benign:
		f.State, f.Hint = driver.Note, "it has no probe: an operator who approves it does not see what it would take"
	}
	return f
}

// Prepare copies and hashes the programs. The action runs the copies once, even if the files
// changed since. It refuses with StaleTarget if a path leads elsewhere since.
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
		if err := seen.again(step.Params); err != nil {
			return driver.Result{}, err
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
		return done, refusal.New(refusal.CommandFailed, "%s ended with exit status %d", t, e.status)
	}
	done.Detail = "ran to its end, exit status 0"
	return done, nil
}
