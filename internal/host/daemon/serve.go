// Package daemon is a gate that runs: it puts the parts together, serves the socket,
// reloads and stops.
package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver"
	"gated/internal/driver/command"
	"gated/internal/driver/local"
	"gated/internal/host/life"
	"gated/internal/host/ownlog"
	"gated/internal/host/server"
	"gated/internal/host/service"
	"gated/internal/host/systemd"
	"gated/internal/host/unit"
	"gated/internal/log/audit"
	"gated/internal/nonce"
)

// ServeOptions says which state to serve and where.
type ServeOptions struct {
	StateDir string       // empty: DefaultStateDir
	Socket   string       // empty: the configuration's, else the default
	Logger   *slog.Logger // else that of Log, else slog.Default()
	Log      *ownlog.Log  // the daemon's own log, which gated.yaml configures; nil for none
	// LogFormat and LogLevel count more than gated.yaml; empty and nil for none.
	LogFormat ownlog.Format
	LogLevel  *slog.Level

	// Engines open the ledger of a gate that has one; nil is life.Postgres.
	Engines life.Engines

	unit   unit.Place // where it finds the unit that it runs by
	passed []*os.File // what a service manager passed
}

// tickInterval is how often the gate does what time brings, and sweepInterval
// how often the trash is emptied of what is too old.
const (
	tickInterval  = 15 * time.Second
	sweepInterval = 5 * time.Minute
)

// Serve runs the daemon until ctx ends, then stops cleanly: guests' processes
// go on, and what was in flight is in the journal.
func Serve(ctx context.Context, o ServeOptions) error {
	if o.StateDir == "" {
		o.StateDir = life.DefaultStateDir()
	}
	switch {
	case o.Logger == nil && o.Log != nil:
		o.Logger = o.Log.Logger()
	case o.Logger == nil:
		o.Logger = slog.Default()
	}
	// Of what the daemon starts, only a guest's process gets its capabilities.
	if err := local.DropAmbient(); err != nil {
		return err
	}
	// Before anything is started: what it starts must not inherit the service manager's socket.
	fds, err := systemd.Sockets()
	if err != nil {
		return err
	}
	o.passed = fds
	spare, err := duplicates(fds) // for sayWhy; whoever adopts a socket closes what it was passed
	defer func() {
		for _, f := range spare {
			_ = f.Close() // sayWhy may have
		}
	}()
	if err != nil {
		return err
	}
	// From here on, also when this has returned: a reload that is asked for early or late must not end the process.
	signal.Notify(unheard, syscall.SIGHUP)
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)

	served, err := serveHere(ctx, o, hup)
	if err = ended(ctx, served, err, o.Logger); err != nil && !served {
		o.sayWhy(ctx, spare, err)
	}
	return err
}

// unheard takes the signals that no daemon takes. If nobody took them, SIGHUP would end the process in the middle of a stop.
var unheard = make(chan os.Signal, 1)

// serveHere serves a gate of this host alone, or as a member of one that has a ledger.
func serveHere(ctx context.Context, o ServeOptions, hup <-chan os.Signal) (served bool, err error) {
	// First, because a newer gated brings the database up to date as it opens it, which refused settings must not have done.
	if _, err := life.CheckConfig(o.StateDir); err != nil {
		return false, err
	}
	if c, err := life.Settings(o.StateDir); err == nil && c.Store != nil {
		return serveMember(ctx, *c.Store, o, hup)
	}
	opened, err := life.Open(ctx, o.StateDir, o.Logger)
	if err != nil {
		return false, err
	}
	served, err = serve(ctx, opened, nil, o, hup)
	return served, errors.Join(err, opened.Close())
}

// ended is what a daemon that ended so returns, and logs. A stop that was asked for
// before it served is no failure.
func ended(ctx context.Context, served bool, err error, log *slog.Logger) error {
	switch {
	case served && err == nil:
		log.Info("stopped")
	case !served && ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, refusal.Unavailable)):
		log.Info("stopped before it served")
		return nil
	}
	return err
}

// prepare puts a daemon together up to what it needs before it listens. Its caller ends it with stopped.
func prepare(ctx context.Context, opened *life.Opened, m *member, o ServeOptions) (*daemon, error) {
	o.configureLog(opened.Dir.Path())
	d, err := assemble(ctx, opened, o.unit, m, o.Logger)
	if err != nil {
		return nil, err
	}
	d.ownLog = o.Log
	d.whole = newWholeLog(opened.Store, o.Logger)
	if err := d.follow(ctx); err != nil {
		d.stopped()
		return nil, err
	}
	return d, nil
}

// stopped closes what the daemon opened.
func (d *daemon) stopped() {
	if err := d.close(); err != nil {
		d.log.Warn("stopping", "error", err)
	}
}

// serve reports whether it came to answer anybody, and why it ended.
func serve(ctx context.Context, opened *life.Opened, m *member, o ServeOptions, hup <-chan os.Signal) (served bool, err error) {
	d, err := prepare(ctx, opened, m, o)
	if err != nil {
		return false, err
	}
	defer d.stopped()
	socket, err := d.listen(o.Socket, o.passed)
	if err != nil {
		return false, err
	}
	defer socket.Close()
	if err := d.gate.Log(ctx, d.startedEntry()); err != nil {
		return false, err
	}
	// What was in flight is resolved before anything may change.
	if err := d.reconciler().Recover(ctx); err != nil {
		return false, err
	}
	if err := d.member.remember(d.reconciler().Elsewhere); err != nil {
		return false, err
	}
	// What nobody holds any more is free before anybody is answered.
	if err := d.agents.Restore(ctx); err != nil {
		return false, err
	}
	// What waited under another gate id waits under this one before it is shown.
	if d.newborn {
		if err := d.tick(ctx); err != nil {
			d.log.Error("tick", "error", err)
		}
	}
	if d.revoked.Due() { // what came meanwhile counts before anything runs
		d.takeRevoked(ctx)
	}
	return true, d.run(ctx, socket, hup)
}

// part is one of the things that a daemon does as long as it runs.
type part struct {
	name string
	run  func(context.Context) error
}

func (d *daemon) parts(socket *server.Socket, hup <-chan os.Signal) []part {
	answers := d.server()
	return slices.Concat(d.hubParts(), d.member.parts(answers), []part{
		{"the server", func(ctx context.Context) error { return answers.Serve(ctx, socket) }},
		{"reconcile", d.reconciler().Run},
		{"the clock", func(ctx context.Context) error { d.every(ctx, tickInterval, d.soon, "tick", d.tick); return nil }},
		// The tick looks at targets, which can take long; what is signed does not wait for that.
		{"the delays", func(ctx context.Context) error {
			d.every(ctx, tickInterval, nil, "wake what has cooled off", d.gate.WakeDue)
			return nil
		}},
		{"the sweep", func(ctx context.Context) error {
			d.every(ctx, sweepInterval, nil, "sweep the trash", d.sweep)
			return nil
		}},
		{"the guests' protection", func(ctx context.Context) error {
			d.every(ctx, tickInterval, nil, "put Proxmox VE's protection back", d.mend)
			return nil
		}},
		{"reload", func(ctx context.Context) error { d.reloads(ctx, hup); return nil }},
		{"reservations", d.agents.Book.Run},
		{"the scopes", d.scopes.Run},
		{"the audit log", d.whole.run},
		{"what was decided", d.decided.Run},
		{"the watchdog", d.watchdog},
		{"the canary", func(ctx context.Context) error {
			d.every(ctx, tickInterval, d.lookSoon, "canary", d.canary.Step)
			return nil
		}},
	})
}

// run serves until ctx ends or a part fails.
func (d *daemon) run(ctx context.Context, socket *server.Socket, hup <-chan os.Signal) error {
	failed := together(ctx, stopDeadline, d.parts(socket, hup), func() {
		d.member.serves()
		d.tell(systemd.Ready)
		d.log.Info("serving", "host", d.gate.Host(), "gate", string(d.gate.ID()), "socket", socket.Path())
	}, func() {
		d.tell(systemd.Stopping)
		d.log.Info("stopping: calls, and the step that is under way, may end first", "deadline", stopDeadline)
		time.AfterFunc(doubtDeadline, d.opened.Store.StopWaiting)
	})
	d.agents.Close() // before the last entry; who ends from now on, the next start finds
	last, done := context.WithTimeout(context.WithoutCancel(ctx), lastEntry)
	defer done()
	told := d.gate.Log(last, audit.Entry{Kind: audit.Stopped})
	d.tellRest(context.WithoutCancel(ctx))
	if ctx.Err() != nil && (errors.Is(told, refusal.Unavailable) || last.Err() != nil) {
		// Asked for, as on a full disk, or behind a group of the ledger that is in doubt. To end without that entry is as good as kill -9.
		d.log.Warn("the audit log could not be told of the stop", "error", told)
		told = nil
	}
	return errors.Join(failed, told)
}

// doubtDeadline is how long a stop lets a group be in doubt. Each part may have a write in that group, and ends only after it. It is
// more than a step may take, because the ledger may answer again meanwhile.
const doubtDeadline = 25 * time.Second

// lastEntry is how long the entry of the stop may take: a group in doubt may end only when the store closes, which comes after.
const lastEntry = 5 * time.Second

// stopDeadline is how long the parts may take to end. It is more than calls and
// steps that are under way may take (server.Limits.Drain, reconcile.DefaultStopGrace),
// and less than service managers wait.
const stopDeadline = 45 * time.Second

// together runs parts until ctx ends or one of them does, which ends the
// others; that one did is its error. What has not ended within the deadline is
// left behind, and is an error, too: the journal says what was under way.
func together(ctx context.Context, deadline time.Duration, parts []part, begun, stopping func()) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, len(parts))
	var still sync.Map // the names of parts that have not ended
	for _, p := range parts {
		still.Store(p.name, true)
		go func() {
			err := p.run(ctx)
			if ctx.Err() == nil {
				err = fmt.Errorf("%s ended by itself: %w", p.name, cmp.Or(err, errNoReason))
			}
			cancel()
			still.Delete(p.name)
			ended <- err
		}()
	}
	begun()
	<-ctx.Done()
	stopping()
	late := time.After(deadline)
	var failed error
	for range parts {
		select {
		case err := <-ended:
			if err != nil && !errors.Is(err, context.Canceled) {
				failed = errors.Join(failed, err)
			}
		case <-late:
			still.Range(func(name, _ any) bool {
				failed = errors.Join(failed, fmt.Errorf("%v did not end within %s", name, deadline))
				return true
			})
			return failed
		}
	}
	return failed
}

// errNoReason is why a part ended that did not say why.
var errNoReason = errors.New("it gave no reason")

// tick does what time brings.
func (d *daemon) tick(ctx context.Context) error {
	d.checkSigners(ctx)
	if err := d.member.remember(d.reconciler().Elsewhere); err != nil {
		d.log.Warn("the era of this member was not written down", "error", err)
	}
	if err := d.opened.Room.Refill(); err != nil {
		d.log.Warn("the reserve of disk space is not whole", "error", err)
	}
	return d.gate.Tick(ctx)
}

// sweep empties the trash of what is too old.
func (d *daemon) sweep(ctx context.Context) error {
	if d.local == nil {
		return nil
	}
	return whileTrusted(d.gate.Moment(), func() error { return d.local.Sweep(ctx) })
}

// mend puts back what a daemon that was killed could not: Proxmox VE's protection
// of guests.
func (d *daemon) mend(ctx context.Context) error {
	if d.proxmox == nil {
		return nil
	}
	steps, err := d.gate.Dispatched(ctx)
	if err != nil {
		return err
	}
	err = d.proxmox.Mend(ctx, func(t op.Target) bool {
		return slices.ContainsFunc(steps, func(s op.Step) bool { return s.Target == t })
	})
	if errors.Is(err, refusal.Unavailable) {
		return nil // status says that the cluster is away, and the next round tries again
	}
	return err
}

// tickSoon has the tick done now: after a reload, what waits for longer than the
// policy allows is issued anew, and what may run by now is woken. It does not
// wait for it, since the tick looks at guests.
func (d *daemon) tickSoon() {
	select {
	case d.soon <- struct{}{}:
	default:
	}
}

// every does work at once and then by interval, and whenever it is due sooner,
// until ctx ends. A panic costs that time only.
func (d *daemon) every(ctx context.Context, interval time.Duration, sooner <-chan struct{}, what string, work func(context.Context) error) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		err := driver.Safely(d.log, what, func() error { return work(ctx) })
		if err != nil && ctx.Err() == nil {
			d.log.Error(what, "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-sooner:
		}
	}
}

// server returns the socket's server over this daemon.
func (d *daemon) server() *server.Server {
	g, guests := d.gate, d.backends.guests
	backups := service.NewBackup(g, d.opened.Store, d.opened.Dir.Path(), d.log)
	c := server.Config{
		Gate:   g,
		Held:   d.reconciler().HeldBack,
		Guests: service.NewGuests(g, guests),
		Log:    d.events,
		Waits:  service.NewWaits(g),
		Status: d.Status,
		Health: d.Health, Metrics: d.scrapes.text, Proved: func() { d.metrics.Proved(g.Moment().Now) },
		Reload: d.Reload, TakeOver: d.member.takeOver,
		Desired: service.NewDesired(g, guests, service.Elsewhere{Dir: d.config.Desired.Dir, Hub: d.hubURL()},
			d.reconciler().Reread),
		Canary: d.canary, Verified: d.whole.verified,
		Backup: backups.Backup, BackupVerified: backups.Verified,
		Backends:     d.backends.Backends,
		Steering:     append(service.SteeringOfCommands(d.config.Commands), d.backends.steers...),
		Agents:       d.agents,
		Reservations: service.NewReservations(d.agents.Book, g, d.agentsOf(), d.config.Unseen),

		UID: uint32(os.Geteuid()), SingleUser: d.config.SingleUser, Operators: d.config.Admins,
		Refused: g.NoteRefused, Now: now, Logger: d.log,
	}
	if looks, ok := d.drivers[op.KindCommand]; ok {
		c.Commands = service.NewCommands(d.config.Commands, looks)
	}
	c.Submitters = d.submitters()
	c.OperatorsElsewhere, c.SubmittersElsewhere = d.config.Elsewhere.Admins, d.config.Elsewhere.Submitters
	c.Members = d.membersOf()
	if d.member.standsBy() {
		c.Standby, c.Refused = d.member.refusal, nil // it writes no entry
	}
	return server.New(c)
}

// submitters are the uids of this host that may submit jobs; nil means every caller that may connect.
func (d *daemon) submitters() []uint32 {
	if d.config.AnySubmitter {
		return nil
	}
	return append([]uint32{}, d.config.Submitters...)
}

// whileTrusted does what cannot be taken back only while the clock is believed:
// one that jumped ahead would make everything in the trash look old.
func whileTrusted(m nonce.Moment, do func() error) error {
	if !m.Trusted {
		return nil
	}
	return do()
}

// MaybeExecGuest takes over the process if it was started to become a guest's, or
// to watch a command; a program that serves calls it first.
func MaybeExecGuest() {
	local.MaybeExecGuest()
	command.MaybeWatch()
}
