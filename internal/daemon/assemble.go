package daemon

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/user"
	"path/filepath"
	"strconv"

	"gated/internal/driver"
	"gated/internal/driver/local"
	"gated/internal/gate"
	"gated/internal/op"
	"gated/internal/reconcile"
	"gated/internal/server"
)

// assemble puts a daemon together; nothing of it changes anything yet, but for
// what the driver cleans up.
func assemble(ctx context.Context, state *opened, log *slog.Logger) (*daemon, error) {
	c, trust, err := settings(state.dir.Path())
	if err != nil {
		return nil, err
	}
	if c.Host != state.id.Host {
		return nil, op.Refuse(op.TargetMismatch, "%s says host %q, but this gate was made for %q",
			filepath.Join(state.dir.Path(), configName), c.Host, state.id.Host).
			WithHint("what operators sign names the host; put the old name back, or make a new gate")
	}
	d := &daemon{opened: state, config: c, log: log, started: now()}
	if d.local, err = local.New(d.localConfig()); err != nil {
		return nil, err
	}
	d.gate, err = newGate(ctx, state, gate.Config{Observer: d.local, Trust: trust, Wake: d.wake, Logger: log}, c.Policy)
	if err != nil {
		return nil, errors.Join(err, d.local.Close())
	}
	d.events = newEventLog(d.gate, state.store)
	source, closeSource, err := d.source()
	if err != nil {
		return nil, errors.Join(err, d.local.Close())
	}
	d.closeParts = func() error { return errors.Join(closeSource(), d.local.Close()) }
	d.pursuer.Store(reconcile.New(reconcile.Config{Gate: d.gate, Drivers: map[string]driver.Driver{"guest": d.local},
		Sources: []reconcile.Source{source}, Workers: c.Workers, Interval: c.Desired.Interval, Host: c.Host, Now: now, Logger: log}))
	return d, nil
}

func (d *daemon) reconciler() *reconcile.Reconciler { return d.pursuer.Load() }

// wake passes a target on to reconcile. The driver, which is there first, may
// already tell of a process that ended; what is lost so early, reconcile's first
// look at everything finds.
func (d *daemon) wake(t op.Target) {
	if r := d.pursuer.Load(); r != nil {
		r.Wake(t)
	}
}

// source returns where desired state comes from, and what ends it.
func (d *daemon) source() (reconcile.Source, func() error, error) {
	if d.config.Desired.Dir == "" {
		return reconcile.NewAPI(d.gate), func() error { return nil }, nil
	}
	dir, err := reconcile.NewDir(d.config.Desired.Dir, d.config.Desired.Interval, now)
	if err != nil {
		return nil, nil, err
	}
	return dir, dir.Close, nil
}

func (d *daemon) localConfig() local.Config {
	c := d.config.Local
	root := c.Root
	if root == "" {
		root = filepath.Join(d.opened.dir.Path(), guestsName)
	}
	commands := map[string]local.Command{}
	for name, cmd := range c.Commands {
		commands[name] = local.Command{Argv: cmd.Argv, User: cmd.User, Env: cmd.Env}
	}
	return local.Config{Root: root, TrashKeep: c.TrashKeep, StopGrace: c.StopGrace, Commands: commands,
		SingleUser: d.config.SingleUser, CgroupRoot: c.Cgroup, Now: now, Logger: d.log, Exited: d.wake}
}

func (d *daemon) listen(path string) (*server.Socket, error) {
	if path == "" {
		path = d.config.Socket
	}
	if path == "" {
		path = defaultSocket()
	}
	gid, err := socketGroup(d.config.SocketGroup)
	if err != nil {
		return nil, err
	}
	return server.Listen(path, gid)
}

// socketGroup returns the group whose members may connect, -1 for none. Root's
// default is the group gated, if there is one.
func socketGroup(name string) (int, error) {
	implied := name == ""
	if implied {
		if os.Geteuid() != 0 {
			return -1, nil
		}
		name = serviceUser
	}
	g, err := user.LookupGroup(name)
	if err != nil {
		if implied {
			return -1, nil
		}
		return -1, op.Refuse(op.BadParams, "socket_group: there is no group %q", name)
	}
	return strconv.Atoi(g.Gid)
}
