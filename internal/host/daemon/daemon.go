package daemon

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"gated/internal/base/headroom"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/driver"
	"gated/internal/driver/local"
	"gated/internal/driver/proxmox"
	"gated/internal/driver/scope"
	"gated/internal/driver/trust"
	"gated/internal/gate"
	"gated/internal/host/config"
	"gated/internal/host/hub"
	"gated/internal/host/life"
	"gated/internal/host/metrics"
	"gated/internal/host/ownlog"
	"gated/internal/host/service"
	"gated/internal/host/signers"
	"gated/internal/host/state"
	"gated/internal/host/unit"
	"gated/internal/log/canary"
	"gated/internal/log/checkpoint"
	"gated/internal/log/follow"
	"gated/internal/nonce"
	"gated/internal/reconcile"
)

// daemon is one running gate.
type daemon struct {
	opened      *life.Opened
	config      config.Config
	unit        unit.Place
	gate        *gate.Gate
	backends    *backends
	local       *local.Driver                        // of backends; nil where it is not configured
	proxmox     *proxmox.Driver                      // the same
	pursuer     atomic.Pointer[reconcile.Reconciler] // see wake
	drivers     drivers
	agents      *service.Agents
	scopes      *service.ScopeWatch
	events      *service.Log
	hub         *hub.Link // nil where none is configured
	whole       *wholeLog
	decided     *follow.Follower // of what was decided, for the log and the metrics
	metrics     *metrics.Metrics
	scrapes     *scrapes
	ownLog      *ownlog.Log    // nil where the caller of Serve has another logger
	newborn     bool           // this is the first start under the gate's id
	ends        []func() error // see atEnd
	log         *slog.Logger
	started     time.Time
	canary      *canary.Canary
	lookSoon    chan struct{}  // holds one: the canary is due
	list        signers.List   // that it started with
	listIsNew   bool           // the database does not have it yet
	key         checkpoint.Key // of the heads of the audit log
	signers     *signers.File
	revoked     *signers.Revocations   // of the goroutine that reloads
	revokedSays atomic.Pointer[string] // what the revocation file holds
	soon        chan struct{}          // holds one: the tick is due
	reloadSoon  chan reloadCall
	reloadErr   atomic.Pointer[refusal.Refusal] // of the last reload, nil if it worked
	signersErr  atomic.Pointer[refusal.Refusal] // why the file of signers does not say what is in force, else nil
	waits       atomic.Pointer[string]          // settings that changed on disk and wait for a start
	member      *member                         // nil for a gate of this host alone
}

// atEnd has something ended before everything that was opened before it.
func (d *daemon) atEnd(end func() error) { d.ends = append(d.ends, end) }

// close ends what was opened, the last first.
func (d *daemon) close() error {
	var failed error
	for _, end := range slices.Backward(d.ends) {
		failed = errors.Join(failed, end())
	}
	return failed
}

func (d *daemon) reconciler() *reconcile.Reconciler { return d.pursuer.Load() }

// now is the wall clock for deadlines and logs; decisions use the gate's own.
func now() time.Time { return time.Now() }

// assemble puts a daemon together: settings, the gate, its drivers, and what runs
// steps. Each part gets what was made before it.
// m is nil for a gate of this host alone. A standby writes nothing.
func assemble(ctx context.Context, opened *life.Opened, place unit.Place, m *member, log *slog.Logger) (d *daemon, err error) {
	c, err := life.Settings(opened.Dir.Path())
	if err != nil {
		return nil, err
	}
	if c.Host != opened.ID.Host {
		return nil, refusal.New(refusal.TargetMismatch, "%s says host %q, but this gate was made for %q",
			filepath.Join(opened.Dir.Path(), state.SettingsName), c.Host, opened.ID.Host).
			WithHint("what operators sign names the host; put the old name back, or make a new gate")
	}
	if err := life.CheckDeciding(c); err != nil {
		return nil, err
	}
	if err := life.CheckUnit(place); err != nil {
		return nil, err
	}
	for _, old := range c.OldWords {
		log.Warn("gated.yaml has a word of an earlier version", "note", old)
	}
	d = &daemon{opened: opened, config: c, unit: place, member: m, log: log, started: now(), soon: make(chan struct{}, 1), lookSoon: make(chan struct{}, 1), reloadSoon: make(chan reloadCall),
		signers: signers.NewFile(opened.Dir.Path())}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.close())
		}
	}()
	if err := opened.Room.Configure(headroom.Options{Keep: c.Limits.KeepFree, Reserve: c.Limits.Reserve}); err != nil {
		log.Warn("there is no reserve of disk space for signed work", "error", err)
	}
	if err := d.openGate(ctx); err != nil {
		return d, err
	}
	if d.backends, err = d.openBackends(ctx); err != nil {
		return d, err
	}
	if err := d.openAgents(ctx); err != nil {
		return d, err
	}
	d.drivers = d.backends.drivers(d.log)
	d.drivers.add(trust.New(d.gate, d.list.Version.How, d.checkSigners), d.log)
	d.drivers.add(scope.New(d.agents.Book, d.member.callers()), d.log)
	d.gate.Attach(d.drivers, d.mayRun, d.mayRunSigned)
	if !d.member.standsBy() {
		if err := d.firstEntries(ctx); err != nil {
			return d, err
		}
	}
	return d, d.openReconciler()
}

// openGate makes the gate, by the list of signers and the revoked keys in force. It
// writes nothing to the database.
func (d *daemon) openGate(ctx context.Context) error {
	var err error
	if d.list, d.listIsNew, err = signers.Current(ctx, d.opened.Store, d.signers); err != nil {
		return err
	}
	if err := d.openRevocations(ctx); err != nil {
		return err
	}
	if d.key, d.newborn, err = headKey(ctx, d.opened); err != nil {
		return err
	}
	signer, err := signsFor(ctx, d.opened, d.key, d.log)
	if err != nil {
		return err
	}
	list, _ := d.revoked.Read()
	d.gate, err = d.newGate(ctx, gate.Config{Trust: d.list.Trust.WithRevoked(list), Epoch: d.list.Version.Epoch, Key: signer})
	if err == nil {
		d.sayRevoked(list)
	}
	return err
}

// firstEntries writes what a start may have to write first: the gate's own key
// before anything else, because no head is signed with a key that the log does not
// name; and the list of signers, if the database had none.
func (d *daemon) firstEntries(ctx context.Context) error {
	if d.newborn {
		if err := d.enrolKey(ctx, d.key); err != nil {
			return err
		}
	}
	if d.listIsNew {
		if err := d.recordFirst(ctx); err != nil {
			return err
		}
	}
	d.checkSigners(ctx)
	return nil
}

// newGate loads the clock and makes the gate, without its targets.
func (d *daemon) newGate(ctx context.Context, c gate.Config) (*gate.Gate, error) {
	o := d.opened
	if err := o.Store.View(ctx, func(tx *store.Tx) (err error) {
		c.Clock, err = nonce.LoadClock(tx, nonce.System)
		return err
	}); err != nil {
		return nil, err
	}
	c.Store, c.Host, c.ID, c.Policy, c.Logger, c.Room = o.Store, o.ID.Host, o.ID.Gate, d.config.Policy, d.log, o.Room
	c.Held = d.member.held()
	c.UID, c.Operators = cancelsAll(d.config), admins(d.config)
	c.Member, c.Elsewhere = d.member.callers(), d.config.Elsewhere.Admins
	c.Quotas = gate.Quotas{JournalBytes: d.config.Limits.JournalQuota, Snapshots: d.config.Limits.Snapshots}
	return gate.New(c)
}

// openAgents makes the registry of agents and the book of what they reserve.
func (d *daemon) openAgents(ctx context.Context) error {
	var err error
	if d.scopes, err = service.WatchScopes(ctx, d.gate, d.wake, d.log); err != nil {
		return err
	}
	if d.agents, err = service.NewAgents(d.gate, d.opened.Store, d.agentsOf(), d.scopes.Moved, d.log); err != nil {
		return err
	}
	d.atEnd(func() error { d.agents.Close(); return nil })
	return nil
}

// openReconciler makes what runs steps, and what watches the gate.
func (d *daemon) openReconciler() error {
	d.canary = d.newCanary()
	d.events = service.NewLog(d.gate, d.opened.Store)
	source, err := d.source()
	if err != nil {
		return err
	}
	d.pursuer.Store(reconcile.New(reconcile.Config{Gate: d.gate, Drivers: d.drivers, Sources: []reconcile.Source{source},
		Workers: d.config.Workers, Interval: d.config.Desired.Interval, Host: d.config.Host, Moved: d.member.moved(), Now: now, Logger: d.log}))
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

// admins returns the uids of admins that the configuration lists. The
// daemon's own is none of them: guests and mistakes of the daemon may have it.
func admins(c config.Config) []uint32 {
	return slices.DeleteFunc(slices.Clone(c.Admins), func(uid uint32) bool { return uid == uint32(os.Geteuid()) })
}

// drivers looks at each target through the driver of its kind.
type drivers map[string]driver.Driver

// add has a driver answer for its kind. A panic of its is an error of one call.
func (d drivers) add(one driver.Driver, log *slog.Logger) { d[one.Kind()] = driver.Contain(one, log) }

// Observe refuses, as UnknownTarget, a kind that no driver answers for.
func (d drivers) Observe(ctx context.Context, l op.Look) (op.Observed, error) {
	t := l.Target
	if one := d[t.Kind]; one != nil {
		return one.Observe(ctx, l)
	}
	if t.Kind == op.KindCommand {
		return op.Observed{}, refusal.New(refusal.UnknownTarget, "there is no %s: this gate has no commands", t).
			WithHint("an operator puts them into gated.yaml, under commands")
	}
	return op.Observed{}, refusal.New(refusal.UnknownTarget, "there is no %s: nothing here is of that kind", t)
}

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
	d.scopes.Asked(t)
	d.wake(t)
}

// mayRunSigned is mayRun for what operators signed.
func (d *daemon) mayRunSigned(t op.Target) {
	d.scopes.Asked(t)
	if r := d.pursuer.Load(); r != nil {
		r.WakeSigned(t)
	}
}

// source returns where desired state comes from.
func (d *daemon) source() (reconcile.Source, error) {
	if d.config.Hub != nil {
		d.hub = d.newHub(*d.config.Hub)
		return d.hub, nil
	}
	if d.config.Desired.Dir == "" {
		return reconcile.NewAPI(d.gate), nil
	}
	dir, err := reconcile.NewDir(d.config.Desired.Dir, d.config.Desired.Interval, now)
	if err != nil {
		return nil, err
	}
	d.atEnd(dir.Close)
	return dir, nil
}
