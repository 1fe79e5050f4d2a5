package daemon

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"

	"gated/internal/config"
	"gated/internal/driver"
	"gated/internal/driver/local"
	"gated/internal/driver/scope"
	"gated/internal/driver/trust"
	"gated/internal/gate"
	"gated/internal/headroom"
	"gated/internal/op"
	"gated/internal/reconcile"
	"gated/internal/server"
	"gated/internal/unit"
)

// assemble puts a daemon together; nothing of it changes anything yet, but for
// what the driver cleans up.
func assemble(ctx context.Context, state *opened, place unit.Place, log *slog.Logger) (*daemon, error) {
	c, err := settings(state.dir.Path())
	if err != nil {
		return nil, err
	}
	if c.Host != state.id.Host {
		return nil, op.Refuse(op.TargetMismatch, "%s says host %q, but this gate was made for %q",
			filepath.Join(state.dir.Path(), configName), c.Host, state.id.Host).
			WithHint("what operators sign names the host; put the old name back, or make a new gate")
	}
	if err := checkDeciding(c); err != nil {
		return nil, err
	}
	if err := checkUnit(place); err != nil {
		return nil, err
	}
	d := &daemon{opened: state, config: c, unit: place, log: log, started: now(), soon: make(chan struct{}, 1), lookSoon: make(chan struct{}, 1),
		signers: newSignersFile(filepath.Join(state.dir.Path(), signersName))}
	if err := state.room.Configure(headroom.Options{Keep: c.Limits.KeepFree, Reserve: c.Limits.Reserve}); err != nil {
		log.Warn("there is no reserve of disk space for signed work", "error", err)
	}
	held, err := d.hold(ctx)
	if err != nil {
		return nil, err
	}
	if d.backends, err = d.openBackends(ctx); err != nil {
		return nil, err
	}
	d.closeParts = d.backends.close
	if err := d.connect(ctx, held); err != nil {
		return nil, errors.Join(err, d.closeParts())
	}
	return d, nil
}

// connect makes the gate and what stands around it.
func (d *daemon) connect(ctx context.Context, h held) error {
	d.revoked = newRevocations(revocationPath(d.config, d.opened.dir.Path()))
	d.closeParts = func() error { return errors.Join(d.revoked.close(), d.backends.close()) }
	var err error
	if d.revoked.needed, err = d.missedAtStart(ctx); err != nil {
		return err
	}
	list, at, _ := d.revoked.load(insist) // whatever is there: nothing is in force that could stay
	seen := d.backends.drivers(d)
	key, fresh, err := headKey(ctx, d.opened)
	if err != nil {
		return err
	}
	signer, err := signsFor(ctx, d.opened, key, d.log)
	if err != nil {
		return err
	}
	d.gate, err = newGate(ctx, d.opened, gate.Config{Observer: seen, Trust: h.trust.WithRevoked(list), Epoch: h.v.Epoch,
		Key: signer, UID: cancelsAll(d.config), Operators: operators(d.config), Wake: d.mayRun, WakeSigned: d.mayRunSigned, Logger: d.log, Room: d.opened.room,
		Quotas: gate.Quotas{JournalBytes: d.config.Limits.JournalQuota, Snapshots: d.config.Limits.Snapshots}}, d.config.Policy)
	if err != nil {
		return err
	}
	d.newborn = fresh
	if fresh { // before anything else is written: no head is signed with a key that the log does not name
		if err := d.enrolKey(ctx, key); err != nil {
			return err
		}
	}
	d.tookRevoked(list, at, insist)
	d.sayRevoked()
	if err := d.adoptFirst(ctx, h); err != nil {
		return err
	}
	if h.older {
		if err := d.noteOlder(ctx, h.v); err != nil {
			return err
		}
	}
	rotates := trust.New(d.gate, h.v.How, d.checkSigners)
	seen[rotates.Kind()] = driver.Contain(rotates, d.log)
	if err := d.connectAgents(ctx, seen); err != nil {
		return err
	}
	d.canary = d.newCanary()
	d.events = newEventLog(d.gate, d.opened.store)
	source, closeSource, err := d.source()
	if err != nil {
		return err
	}
	others := d.closeParts
	d.closeParts = func() error { return errors.Join(closeSource(), others()) }
	d.pursuer.Store(reconcile.New(reconcile.Config{Gate: d.gate, Drivers: seen, Sources: []reconcile.Source{source},
		Workers: d.config.Workers, Interval: d.config.Desired.Interval, Host: d.config.Host, Now: now, Logger: d.log}))
	return nil
}

// cancelsAll returns the uid that may cancel any job beside root. The daemon's own
// is that only under single_user: guests and mistakes of the daemon may have it.
func cancelsAll(c config.Config) uint32 {
	if c.SingleUser {
		return uint32(os.Geteuid())
	}
	return 0
}

// operators returns the uids of operators that the configuration lists. The
// daemon's own is none of them: guests and mistakes of the daemon may have it.
func operators(c config.Config) []uint32 {
	return slices.DeleteFunc(slices.Clone(c.Operators), func(uid uint32) bool { return uid == uint32(os.Geteuid()) })
}

// connectAgents makes the registry of agents and the book of what they reserve.
func (d *daemon) connectAgents(ctx context.Context, seen drivers) error {
	var err error
	if d.scopes, err = watchScopes(ctx, d.gate, d.wake, d.log); err != nil {
		return err
	}
	if d.agents, err = newAgents(d.gate, d.opened.store, d.scopes.moved, d.log); err != nil {
		return err
	}
	takes := scope.New(d.agents.book)
	seen[takes.Kind()] = driver.Contain(takes, d.log)
	d.closeParts = func() error { d.agents.close(); return errors.Join(d.revoked.close(), d.backends.close()) }
	return nil
}

// drivers looks at each target through the driver of its kind. It is complete
// before anybody looks.
type drivers map[string]driver.Driver

// Observe refuses, as UnknownTarget, a kind that no driver answers for.
func (d drivers) Observe(ctx context.Context, l op.Look) (op.Observed, error) {
	t := l.Target
	if one := d[t.Kind]; one != nil {
		return one.Observe(ctx, l)
	}
	if t.Kind == op.KindCommand {
		return op.Observed{}, op.Refuse(op.UnknownTarget, "there is no %s: this gate has no commands", t).
			WithHint("an operator puts them into gated.yaml, under commands")
	}
	return op.Observed{}, op.Refuse(op.UnknownTarget, "there is no %s: nothing here is of that kind", t)
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

// mayRun is told by the gate of each target that may have something to do.
func (d *daemon) mayRun(t op.Target) {
	d.scopes.asked(t)
	d.wake(t)
}

// mayRunSigned is mayRun for what operators signed.
func (d *daemon) mayRunSigned(t op.Target) {
	d.scopes.asked(t)
	if r := d.pursuer.Load(); r != nil {
		r.WakeSigned(t)
	}
}

// source returns where desired state comes from, and what ends it.
func (d *daemon) source() (reconcile.Source, func() error, error) {
	if d.config.Hub != nil {
		d.hub = d.newHub(*d.config.Hub)
		return d.hub, func() error { return nil }, nil
	}
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
		GuestUIDs: local.UIDRange(c.GuestUIDs), SingleUser: d.config.SingleUser, CgroupRoot: c.Cgroup, Now: now, Logger: d.log,
		Exited: d.wake, Wanted: d.wanted}
}

// wanted reports whether an open step is to bring a destroyed guest back.
func (d *daemon) wanted(ctx context.Context, name string, inc op.Incarnation) (bool, error) {
	return d.gate.Wanted(ctx, op.Target{Kind: op.KindGuest, Name: name}, inc)
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
	socket, err := server.Listen(path, gid)
	if err != nil {
		return nil, err
	}
	dir := filepath.Dir(path)
	if info, err := os.Stat(dir); err == nil && info.Mode()&(fs.ModeSticky|0o002) == 0o002 {
		d.log.Warn("everybody may write to the socket's directory, and can take the socket away; choose another place, or chmod o-w", "directory", dir)
	}
	return socket, nil
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
		return -1, op.Refuse(op.BadParams, "socket_group: there is no group %q", name).
			WithHint("make it (groupadd --system %s) and add who may ask, name a group of this host in gated.yaml, or take the line out", name)
	}
	return strconv.Atoi(g.Gid)
}
