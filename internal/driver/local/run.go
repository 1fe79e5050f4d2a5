package local

import (
	"context"

	"gated/internal/crashpoint"
	"gated/internal/op"
)

func (d *Driver) prepareStart(_ context.Context, step op.Step, g *guest) (action, error) {
	if d.procs.get(g.incarnation()) != nil {
		return func(context.Context) error { return nil }, nil // it runs already
	}
	if err := d.checkRunnable(step.Target, g.spec); err != nil {
		return nil, err
	}
	return func(ctx context.Context) error { return d.start(ctx, g) }, nil
}

func (d *Driver) prepareStop(_ context.Context, _ op.Step, g *guest) (action, error) {
	return func(ctx context.Context) error { return d.stop(ctx, g.incarnation()) }, nil
}

func (d *Driver) prepareRestart(_ context.Context, step op.Step, g *guest) (action, error) {
	if err := d.checkRunnable(step.Target, g.spec); err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		if err := d.stop(ctx, g.incarnation()); err != nil {
			return err
		}
		return d.start(ctx, g)
	}, nil
}

// checkRunnable refuses what cannot be started: a guest without a command, one
// whose command is no longer configured, and one that would run unconfined with
// the daemon's own rights over the gate's state.
func (d *Driver) checkRunnable(t op.Target, s spec) error {
	if s.Command == "" {
		return op.Refuse(op.Conflict, "%s has no command to run", t).
			WithHint("set one: gated submit guest.set-config %s -p command=NAME", t.Name)
	}
	if err := d.checkCommand(s.Command); err != nil {
		return err
	}
	if d.landlock == 0 && !d.accounts[s.Command].Switch && !d.cfg.SingleUser {
		return op.Refuse(op.NotAllowed, "command %s would run unconfined as the daemon's own user", s.Command).
			WithHint("give it a user of its own under local.commands, or a kernel with Landlock")
	}
	return nil
}

func (d *Driver) checkCommand(name string) error {
	if _, ok := d.cfg.Commands[name]; name != "" && !ok {
		return op.Refuse(op.NotAllowed, "local.commands has no entry %q", name).
			WithHint("an operator adds it to gated.yaml")
	}
	return nil
}

func (d *Driver) prepareSetConfig(_ context.Context, step op.Step, g *guest) (action, error) {
	s := g.spec
	s.apply(step.Params)
	if step.Params.Has("command") {
		if err := d.checkCommand(s.Command); err != nil {
			return nil, err
		}
	}
	return func(context.Context) error {
		// The cgroup first: if it refuses, the file still says what holds.
		if p := d.procs.get(g.incarnation()); p != nil {
			if err := d.cgroups.limit(p.group, s); err != nil {
				return err
			}
		}
		err := g.write(s)
		crashpoint.Here(crashpoint.ConfigWritten)
		return err
	}, nil
}
