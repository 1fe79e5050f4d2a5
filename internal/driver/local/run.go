package local

import (
	"context"
	"errors"
	"os"

	"gated/internal/base/crashpoint"
	"gated/internal/base/op"
	"gated/internal/base/ownfile"
	"gated/internal/base/refusal"
	"gated/internal/driver"
)

func (d *Driver) prepareStart(_ context.Context, step op.Step, g *guest) (action, error) {
	if d.procs.get(g.incarnation()) != nil {
		return func(context.Context, *driver.Result) error { return nil }, nil // it runs already
	}
	if err := d.checkRunnable(step.Target, g.spec); err != nil {
		return nil, err
	}
	return func(ctx context.Context, _ *driver.Result) error { return d.start(ctx, g) }, nil
}

func (d *Driver) prepareStop(_ context.Context, _ op.Step, g *guest) (action, error) {
	return func(ctx context.Context, r *driver.Result) error {
		var err error
		r.Detail, err = d.stop(ctx, g.incarnation())
		return err
	}, nil
}

func (d *Driver) prepareRestart(_ context.Context, step op.Step, g *guest) (action, error) {
	if err := d.checkRunnable(step.Target, g.spec); err != nil {
		return nil, err
	}
	return func(ctx context.Context, r *driver.Result) error {
		var err error
		if r.Detail, err = d.stop(ctx, g.incarnation()); err != nil {
			return err
		}
		return d.start(ctx, g)
	}, nil
}

// checkRunnable refuses a guest that cannot start. The guest has no command, its command is not
// configured any more, or the command would run as the daemon's own user. No confinement keeps
// that uid from the gate's state: Landlock does not cover a change of mode or owner.
func (d *Driver) checkRunnable(t op.Target, s spec) error {
	if s.Command == "" {
		return refusal.New(refusal.Conflict, "%s has no command to run", t).
			WithHint("set one: gated submit guest.set-config %s -p command=NAME", t.Name)
	}
	if err := d.checkCommand(s.Command); err != nil {
		return err
	}
	if err := d.checkProgram(s.Command); err != nil {
		return err
	}
	if d.accounts[s.Command].Switch || d.cfg.GuestUIDs.set() || d.cfg.without.uid || d.cfg.SingleUser && os.Geteuid() != 0 {
		return nil
	}
	whose := "the daemon's own user, and could change the gate itself"
	if os.Geteuid() == 0 {
		whose = "root"
	}
	return refusal.New(refusal.NotAllowed, "command %s would run as %s", s.Command, whose).
		WithHint("say local: {guest_uids: FIRST-LAST} in gated.yaml, a range that nothing else uses; or name the command's user")
}

// runsAs returns the account of a guest's next process, and gives the guest's data to that
// account.
func (d *Driver) runsAs(ctx context.Context, g *guest) (account, error) {
	a := d.accounts[g.Command]
	if a.Switch || !d.cfg.GuestUIDs.set() || d.cfg.without.uid {
		return a, nil
	}
	uid, err := d.uids.give(d, g.UUID)
	if err != nil {
		return account{}, err
	}
	crashpoint.Here(crashpoint.StartGiven)
	data, err := g.dir.sub(dataDir)
	if err != nil {
		return account{}, err
	}
	defer data.close()
	err = adoptTree(ctx, data, uid)
	crashpoint.Here(crashpoint.StartOwned)
	return account{Switch: true, UID: uid, GID: uid}, err
}

// checkProgram refuses a program that others could have changed since the daemon started. If
// the program is missing, it passes, because the start reports that.
func (d *Driver) checkProgram(name string) error {
	err := ownfile.Own().CheckProgram(d.cfg.Commands[name].Argv[0])
	if errors.Is(err, refusal.NotAllowed) {
		return err
	}
	return nil
}

func (d *Driver) checkCommand(name string) error {
	if _, ok := d.cfg.Commands[name]; name != "" && !ok {
		return refusal.New(refusal.NotAllowed, "local.commands has no entry %q", name).
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
	return func(context.Context, *driver.Result) error {
		// The cgroup comes first: if it refuses, the file still has the limits that hold.
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
