package loss

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gated/internal/authz"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/driver"
	"gated/internal/driver/several"
	"gated/internal/gate"
	"gated/internal/host/fsck"
	"gated/internal/ledger"
	"gated/internal/ledger/ledgertest"
	"gated/internal/ledger/memory"
	"gated/internal/nonce"
	"gated/internal/people/policy"
	"gated/internal/reconcile"
	"gated/internal/test/gateworld"
	"gated/internal/test/mint"
	"gated/internal/wire/desired"
)

const (
	host = "host"
	// interval is between two rounds of the reconciler: the oracle asks for rounds.
	interval = 1000 * time.Hour
	// patience bounds what a machine does in real time. It is never waited for where
	// things work. At a load of 40, a start of QEMU took over half a minute.
	patience = 2 * time.Minute
)

// machine is one gate's state and back end, over many lives of the daemon.
type machine struct {
	t      testing.TB
	ctx    context.Context
	dir    string
	bed    bed
	clock  *clock
	alice  mint.Key
	trust  *authz.Trust
	policy policy.Policy
	wishes *wishList
	log    *slog.Logger
	life   *life
	lives  int
	ran    runLog
	ledger *memory.Ledger // nil without -ledger; each life is a daemon that takes over
}

// life is one run of the daemon: what package daemon puts together, over the
// machine's clock, without its socket.
type life struct {
	store    *store.Store
	gate     *gate.Gate
	injector *injector
	rec      *reconcile.Reconciler
	endBed   func() error
	cancel   context.CancelFunc
	ended    chan error
	rounds   atomic.Int64 // how many rounds over everything have ended
}

// wishList is the source of desired state: two sets, as documents.
type wishList struct {
	mu  sync.Mutex
	of  map[string]map[string]string // by set and guest: an entry of a document
	bad bool
}

// sets are the names of the desired sets: what operators keep, and what a hub says.
var sets = []string{"site", "hub"}

func (*wishList) Name() string { return "loss" }

// Read parses the documents, as every source does.
func (w *wishList) Read(context.Context) ([]*reconcile.SetDoc, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.bad {
		return nil, refusal.New(refusal.Unavailable, "the source is away")
	}
	var out []*reconcile.SetDoc
	for _, set := range []string{"hub", "site"} {
		text := "apiVersion: gated/v1\nhost: " + host + "\nguests: [\n"
		for _, name := range names {
			if entry := w.of[set][name]; entry != "" {
				text += entry + ",\n"
			}
		}
		text += "]\n"
		doc, err := desired.Parse(set, []byte(text))
		if err != nil {
			return nil, err
		}
		out = append(out, &reconcile.SetDoc{Set: set, Doc: doc, Digest: op.SHA256([]byte(text))})
	}
	return out, nil
}

// mentions reports whether a set says something of a guest.
func (w *wishList) mentions(name string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, set := range sets {
		if w.of[set][name] != "" {
			return true
		}
	}
	return false
}

// newMachine makes a machine over a back end, and starts it. It lives in memory
// where that can be had: what a power cut leaves is tested by package crash.
func newMachine(t testing.TB, b bed) *machine {
	alice := mint.Ed25519(t, "alice")
	trust := gateworld.Trust(t, gateworld.Line(alice, op.Operational))
	dir, err := os.MkdirTemp(scratchDir(), "gl")
	must(t, err)
	m := &machine{t: t, ctx: context.WithoutCancel(t.Context()), dir: dir, bed: b, clock: &clock{}, alice: alice, trust: trust,
		policy: policies[0], wishes: &wishList{of: map[string]map[string]string{"site": {}, "hub": {}}},
		log: slog.New(slog.DiscardHandler)}
	if testing.Verbose() && os.Getenv("GATED_LOSS_LOG") != "" {
		m.log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	b.at(dir, asked{wanted: func(ctx context.Context, name string, inc op.Incarnation) (bool, error) {
		return m.life.gate.Wanted(ctx, op.Target{Kind: op.KindGuest, Name: name}, inc)
	}, recorded: func(ctx context.Context, prefix string) ([]op.Incarnation, error) {
		return m.life.gate.Incarnations(ctx, prefix)
	}})
	if *onLedger {
		m.ledger = memory.New()
	}
	gateworld.Database(t, m.database(), gate.Migrations())
	must(t, m.start())
	return m
}

func scratchDir() string {
	if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() {
		return "/dev/shm"
	}
	return ""
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (m *machine) database() string { return filepath.Join(m.dir, "gated.db") }

// policies are what a reload can put in force. None of them calls anything harmless
// that can lose data.
var policies = func() []policy.Policy {
	p := policy.Default()
	p.Commands, p.Benign = append([]string{probes, hides}, programs...), harmless
	short, few := p, p
	short.ScratchMaxAge, short.MaxValidity = time.Hour, time.Hour
	few.Commands = []string{keeps}
	return []policy.Policy{p, short, few}
}()

// start begins a life, as package daemon does: open, recover what was under way,
// then run.
func (m *machine) start() error {
	l := &life{ended: make(chan error, 1)}
	o := store.Options{Migrations: gate.Migrations(), Rehearse: true}
	if m.ledger != nil {
		o.Keeper, o.Local = ledgertest.Keeper(m.ledger.Member()), ledger.LocalNames()
	}
	var err error
	//fsck:none finish runs it over every database
	if l.store, err = store.Open(m.ctx, m.database(), o); err != nil {
		return err
	}
	d, end, err := m.bed.open(m.clock.wall)
	if err != nil {
		return errors.Join(err, l.store.Close())
	}
	l.endBed = end
	var ctx context.Context
	ctx, l.cancel = context.WithCancel(m.ctx)
	if b, ok := d.(driver.Backend); ok && m.bed.kind() == op.KindGuest { // as package daemon does; the memory driver is none
		all, err := several.New(ctx, several.Config{Backends: []driver.Backend{b}, Now: m.clock.wall, Logger: m.log})
		if err != nil {
			return errors.Join(err, end(), l.store.Close())
		}
		d, l.endBed = all, func() error { return errors.Join(all.Close(), end()) }
	}
	l.injector = &injector{Driver: d, bed: m.bed, ctx: ctx, killed: make(chan struct{}), log: &m.ran}
	var c *nonce.Clock
	if err := l.store.View(m.ctx, func(tx *store.Tx) error { c, err = nonce.LoadClock(tx, m.clock.read); return err }); err != nil {
		return err
	}
	l.gate, err = gate.New(gate.Config{Store: l.store, Observer: l.injector, Clock: c, Host: host,
		ID: "0123456789abcdef0123456789abcdef", Trust: m.trust, Policy: m.policy, UID: daemonUID, Logger: m.log,
		Wake: func(t op.Target) {
			if l.rec != nil {
				l.rec.Wake(t)
			}
		}})
	if err != nil {
		return err
	}
	l.injector.gate = l.gate
	l.injector.catchUp()
	// As a daemon does for its first entry: it looks at its clock at once, and each
	// commit keeps the mark from which a later start goes on.
	l.gate.Moment()
	if err := l.store.Update(m.ctx, func(*store.Tx) error { return nil }); err != nil {
		return err
	}
	l.rec = reconcile.New(reconcile.Config{Gate: l.gate, Drivers: map[string]driver.Driver{m.bed.kind(): driver.Contain(l.injector, m.log)},
		Sources: []reconcile.Source{m.wishes}, Host: host, Interval: interval, Workers: 1, StopGrace: 2 * interval, Now: m.clock.wall,
		Logger: m.log, Random: func() float64 { return 0.5 }, After: func(d time.Duration, f func()) func() {
			stop := m.clock.after(d, f) // before the round counts: the next one is asked for by this timer
			if d == interval {
				l.rounds.Add(1)
			}
			return stop
		}})
	m.life = l
	m.lives++
	if err := l.rec.Recover(m.ctx); err != nil {
		return err
	}
	go func() { l.ended <- l.rec.Run(ctx) }()
	return m.rest()
}

// busiest is how many entries the log of a machine may get while no time passes.
const busiest = 1000

// spins asks whether the reconciler goes on and on though no time passes: each round
// is a transaction and an entry of the log.
func (m *machine) spins(from int64) error {
	head, err := m.life.gate.AuditHead(m.ctx)
	if err == nil && head.Seq > from+busiest {
		err = lossOf("liveness", "the reconciler wrote %d entries of the log, and no time passed", head.Seq-from)
	}
	return err
}

// rest waits until the reconciler has nothing left to do at once, or was killed;
// then it starts the daemon anew. Time does not pass meanwhile, but for what a back
// end's own task takes.
func (m *machine) rest() error {
	limit := time.After(patience)
	began, err := m.life.gate.AuditHead(m.ctx)
	if err != nil {
		return err
	}
	for polls, looks := 0, 1; ; looks++ {
		l := m.life
		if looks%1000 == 0 {
			if err := m.spins(began.Seq); err != nil {
				return err
			}
		}
		select {
		case <-l.injector.killed:
			return m.kill()
		case <-limit:
			buf := make([]byte, 1<<20)
			return fmt.Errorf("the reconciler does not come to rest: %+v\n%s", l.rec.Status().Queue, buf[:runtime.Stack(buf, true)])
		case <-time.After(20 * time.Microsecond):
		}
		q := l.rec.Status().Queue
		if l.rounds.Load() == 0 || q.Waiting > 0 || q.Working > 0 {
			continue
		}
		under, err := l.gate.Dispatched(m.ctx)
		if err != nil {
			return err
		}
		tasks := false
		for _, s := range under {
			tasks = tasks || s.Task != ""
		}
		if !tasks || polls > 2000 {
			return m.bed.settle()
		}
		polls++
		<-time.After(200 * time.Microsecond) // a back end's task takes a while in truth, too
		m.clock.pass(time.Second)            // the back end is asked again
		m.fire()
	}
}

// fire runs what was waiting for a time that has come.
func (m *machine) fire() {
	for _, f := range m.clock.due() {
		f()
	}
}

// pass lets time pass, at once, as it does for a machine that was suspended: what
// waited for it runs afterwards.
func (m *machine) pass(d time.Duration) error {
	m.clock.pass(d)
	for range 100 {
		fs := m.clock.due()
		for _, f := range fs {
			f()
		}
		if err := m.rest(); err != nil || len(fs) == 0 {
			return err
		}
	}
	return errors.New("something is due again and again, without time passing")
}

// round has the reconciler look at everything.
func (m *machine) round() error {
	l := m.life
	before := l.rounds.Load()
	m.clock.mu.Lock()
	for _, t := range m.clock.timers {
		if t.at-m.clock.passed > interval/2 && !t.gone {
			t.at = m.clock.passed
		}
	}
	m.clock.mu.Unlock()
	m.fire()
	limit := time.After(patience)
	for l.rounds.Load() == before {
		select {
		case <-l.injector.killed:
			return m.rest()
		case <-limit:
			return errors.New("a round does not end")
		case <-time.After(20 * time.Microsecond):
		}
	}
	return m.rest()
}

// stop ends a life in order.
func (m *machine) stop() error { return m.end(false) }

// kill ends a life as kill -9 does, for all that is on disk: not one transaction is
// committed after it.
func (m *machine) kill() error { return errors.Join(m.end(true), m.start()) }

// restart stops the daemon and starts it.
func (m *machine) restart() error { return errors.Join(m.stop(), m.start()) }

func (m *machine) end(dead bool) error {
	l := m.life
	var err error
	if dead {
		err = l.store.Close()
	}
	l.cancel()
	select {
	case e := <-l.ended:
		err = errors.Join(err, e)
	case <-time.After(patience):
		return errors.Join(err, errors.New("the reconciler does not end"))
	}
	m.clock.drop()
	if !dead {
		err = errors.Join(err, l.store.Close())
	}
	return errors.Join(err, l.endBed())
}

// finish ends the machine and runs fsck over what it leaves. It returns what fsck
// finds. A ledger has to make the same database.
func (m *machine) finish() (problems []fsck.Problem, err error) {
	err = m.stop()
	if m.ledger != nil {
		err = errors.Join(err, ledgertest.Compare(m.ctx, m.ledger.Member(), m.database(), gate.Migrations()))
	}
	//fsck:none this is where it runs
	s, e := store.OpenReadOnly(m.ctx, m.database(), store.Options{Migrations: gate.Migrations()})
	if e != nil {
		return nil, errors.Join(err, e)
	}
	e = s.View(m.ctx, func(tx *store.Tx) error {
		r, err := fsck.Checker{}.Run(tx)
		problems = r.Problems
		return err
	})
	m.bed.close()
	return problems, errors.Join(err, e, s.Close(), os.RemoveAll(m.dir))
}
