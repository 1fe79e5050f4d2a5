package daemon

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"os/user"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"gated/internal/audit"
	"gated/internal/config"
	"gated/internal/driver"
	"gated/internal/driver/local"
	"gated/internal/gate"
	"gated/internal/op"
	"gated/internal/reconcile"
	"gated/internal/server"
)

// ServeOptions says which state to serve and where.
type ServeOptions struct {
	StateDir string // empty: DefaultStateDir
	Socket   string // empty: the configuration's, else the default
	Logger   *slog.Logger
}

// tickInterval is how often the gate does what time brings, and sweepInterval
// how often the trash is emptied of what is too old.
const (
	tickInterval  = 15 * time.Second
	sweepInterval = 5 * time.Minute
)

// daemon is one running gate.
type daemon struct {
	opened     *opened
	config     config.Config
	gate       *gate.Gate
	local      *local.Driver
	reconciler *reconcile.Reconciler
	events     *eventLog
	closeParts func() error
	log        *slog.Logger
	started    time.Time
	reloadErr  atomic.Pointer[op.Refusal] // of the last reload, nil if it worked
}

// Serve runs the daemon until ctx ends, then stops cleanly: guests' processes
// go on, and what was in flight is in the journal.
func Serve(ctx context.Context, o ServeOptions) error {
	if o.StateDir == "" {
		o.StateDir = DefaultStateDir()
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	state, err := open(ctx, o.StateDir)
	if err != nil {
		return err
	}
	err = serve(ctx, state, o)
	return errors.Join(err, state.close())
}

func serve(ctx context.Context, state *opened, o ServeOptions) error {
	d, err := assemble(ctx, state, o.Logger)
	if err != nil {
		return err
	}
	defer func() {
		if err := d.closeParts(); err != nil {
			d.log.Warn("stopping", "error", err)
		}
	}()
	socket, err := d.listen(o.Socket)
	if err != nil {
		return err
	}
	defer socket.Close()
	if err := d.gate.Log(ctx, audit.Entry{Kind: audit.Started, Detail: "gated " + Version() + ", allowed_signers sha256:" +
		d.gate.Trust().Digest()}); err != nil {
		return err
	}
	// What was in flight is resolved before anything may change.
	if err := d.reconciler.Recover(ctx); err != nil {
		return err
	}
	return d.run(ctx, socket)
}

// assemble puts a daemon together; nothing runs yet.
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
	d.reconciler = reconcile.New(reconcile.Config{Gate: d.gate, Drivers: map[string]driver.Driver{"guest": d.local},
		Sources: []reconcile.Source{source}, Workers: c.Workers, Interval: c.Desired.Interval, Host: c.Host, Now: now, Logger: log})
	return d, nil
}

// wake passes a target on to reconcile, which is there before anything runs.
func (d *daemon) wake(t op.Target) {
	if d.reconciler != nil {
		d.reconciler.Wake(t)
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

// run serves until ctx ends or a part fails.
func (d *daemon) run(ctx context.Context, socket *server.Socket) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)

	parts := []func(context.Context) error{
		func(ctx context.Context) error { return d.server().Serve(ctx, socket) },
		d.reconciler.Run,
		func(ctx context.Context) error { d.keepTime(ctx, hup); return nil },
	}
	ended := make(chan error, len(parts))
	for _, part := range parts {
		go func() {
			err := part(ctx)
			cancel(err)
			ended <- err
		}()
	}
	if err := notify("READY=1"); err != nil {
		d.log.Warn("the service manager was not told", "error", err)
	}
	d.log.Info("serving", "host", d.gate.Host(), "gate", string(d.gate.ID()), "socket", socket.Path())
	<-ctx.Done()
	if err := notify("STOPPING=1"); err != nil {
		d.log.Warn("the service manager was not told", "error", err)
	}
	var failed error
	for range parts {
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			failed = errors.Join(failed, err)
		}
	}
	stopped := d.gate.Log(context.WithoutCancel(ctx), audit.Entry{Kind: audit.Stopped})
	return errors.Join(failed, stopped)
}

// keepTime does what time brings, and reloads on SIGHUP.
func (d *daemon) keepTime(ctx context.Context, hup <-chan os.Signal) {
	tick := time.NewTicker(tickInterval)
	defer tick.Stop()
	sweep := time.NewTicker(sweepInterval)
	defer sweep.Stop()
	for {
		if err := d.gate.Tick(ctx); err != nil && ctx.Err() == nil {
			d.log.Error("tick", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-sweep.C:
			if err := d.local.Sweep(ctx); err != nil && ctx.Err() == nil {
				d.log.Error("sweep the trash", "error", err)
			}
		case <-hup:
			d.reload(ctx)
		}
	}
}

// server returns the socket's server over this daemon.
func (d *daemon) server() *server.Server {
	c := server.Config{Gate: decider{d.gate}, Guests: guests{d.gate, d.local}, Log: d.events, Status: d,
		Desired: desiredState{d.gate, d.local, d.config.Desired.Dir, d.reconciler.Reread},
		Backup:  backup{d.opened.store, d.opened.dir.Path()}, UID: uint32(os.Geteuid()), Operators: d.config.Operators,
		Refused: d.gate.NoteRefused, Now: now, Logger: d.log}
	if !d.config.AnySubmitter {
		c.Submitters = d.config.Submitters
		if c.Submitters == nil {
			c.Submitters = []uint32{}
		}
	}
	return server.New(c)
}
