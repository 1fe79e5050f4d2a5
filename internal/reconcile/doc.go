// Package reconcile makes guests as desired state wishes, and runs the steps that the gate permits. It is level-based:
// it works on targets, not on events. Each time it compares what is wished for with what is there.
// docs/design/reconcile.md says why.
package reconcile

import (
	"context"
	"log/slog"
	"maps"
	"math/rand/v2"
	"sync"
	"time"

	"gated/internal/base/op"
	"gated/internal/driver"
	"gated/internal/gate"
)

// Gate is what reconcile needs from a gate; *gate.Gate is one.
type Gate interface {
	Next(ctx context.Context, t op.Target) (gate.Turn, bool, error)
	SignedTargets(ctx context.Context) ([]op.Target, error)
	SetTask(ctx context.Context, id op.StepID, task string) error
	Record(ctx context.Context, id op.StepID, out gate.Outcome) (op.Step, error)
	Refuse(ctx context.Context, id op.StepID, refused error) (op.Step, error)
	RefreshAfter(ctx context.Context, t op.Target, after op.StepID) (next op.StepID, more bool, err error)
	Want(ctx context.Context, set string, ask op.Ask) (op.Job, error)
	Withdraw(ctx context.Context, set string, t op.Target, keep []op.Ask) error
	Adopt(ctx context.Context, set string, o op.Observed) error
	Job(ctx context.Context, id op.JobID) (op.Job, error)
	Open(ctx context.Context, t op.Target) ([]op.Step, error)
	OpenTargets(ctx context.Context) ([]op.Target, error)
	Dispatched(ctx context.Context) ([]op.Step, error)
}

// Defaults of Config.
const (
	DefaultWorkers     = 4
	DefaultInterval    = 30 * time.Second
	DefaultStepTimeout = time.Hour
	DefaultStopGrace   = 20 * time.Second
)

// handOver is how long a driver may take to return after the daemon's stop ended its context. After that, the next
// start finds out what became of its step.
const handOver = 5 * time.Second

// Config is what a Reconciler needs. Gate, Drivers and Host are required.
type Config struct {
	Gate    Gate
	Drivers map[string]driver.Driver // by the kind of target
	Sources []Source
	Host    string // a document for another host is refused

	// Workers is how many targets are worked on at the same time for one requester; 0 means DefaultWorkers. There is
	// one worker more for other requesters, and as many again for steps that operators signed.
	Workers  int
	Interval time.Duration // between rounds over all targets; 0 means DefaultInterval

	// StepTimeout bounds one call of driver.Run; 0 means DefaultStepTimeout. A back end that never answers then stops
	// its own target, and not a worker for ever.
	StepTimeout time.Duration

	// StopGrace is how long steps that have begun may continue after Run is told to stop; 0 means DefaultStopGrace.
	// Then their contexts end.
	StopGrace time.Duration

	// Moved says that another host may have dispatched what Recover finds, and may still be at it. What does not show that
	// it was done is then not run again, also if it is benign.
	Moved bool

	Now    func() time.Time // nil means time.Now
	Logger *slog.Logger     // nil discards

	// After runs f after d, unless stop is called first; nil means time.AfterFunc. Random returns numbers in [0, 1);
	// nil means math/rand.
	After  func(d time.Duration, f func()) (stop func())
	Random func() float64
}

func (c *Config) setDefaults() {
	if c.Workers <= 0 {
		c.Workers = DefaultWorkers
	}
	if c.Interval <= 0 {
		c.Interval = DefaultInterval
	}
	if c.StepTimeout <= 0 {
		c.StepTimeout = DefaultStepTimeout
	}
	if c.StopGrace <= 0 {
		c.StopGrace = DefaultStopGrace
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.After == nil {
		c.After = func(d time.Duration, f func()) func() {
			t := time.AfterFunc(d, f)
			return func() { t.Stop() }
		}
	}
	if c.Random == nil {
		c.Random = rand.Float64
	}
}

// Reconciler is safe for concurrent use. Recover is called once, then Run.
type Reconciler struct {
	Config
	queue  *queue
	shares *shares
	reread chan struct{} // has room for one signal

	cut      context.Context // ends if a stop has waited long enough for steps
	cutOff   func()
	handOver time.Duration

	reading sync.Mutex // held while sources are read, so that their answers come in order

	mu      sync.Mutex
	wishes  *index
	sources []sourceState
	round   roundState
	targets map[op.Target]*target // only targets with something to remember
	passes  map[op.Target]*pass   // a pass looks again at the waiting requests of a target
	limited map[string]time.Time  // sets with as many requests as they may have, and until when each asks for no destroy
}

// target is what is remembered of a target from one time of working on it to the next. A restart may lose all of it:
// the journal has what must last.
type target struct {
	woken    bool            // the gate said that there may be work
	open     bool            // it had open steps when the round saw it
	look     bool            // it was woken since the last pass over its waiting requests
	adopt    bool            // desired state mentions an incarnation, and the gate was not told yet
	withdraw map[string]bool // sets that had a wish for it and have none now
	adopted  []adoption      // the incarnations that the gate was told, for each set
	stopped  []stop          // wishes that ended and must not be asked for again
	retry    *retry
	hold     *retry    // the back-off of a step that will run again; its key is the step's id
	held     *held     // why the next step does not run
	attached *attached // a dispatched step whose end is not recorded yet
	unknown  string    // why the driver could not observe it
}

// adoption says that a set mentions an incarnation.
type adoption struct {
	set         string
	incarnation op.Incarnation
}

// New returns a Reconciler that has done nothing yet.
func New(c Config) *Reconciler {
	c.setDefaults()
	cut, cutOff := context.WithCancel(context.Background())
	c.Drivers = maps.Clone(c.Drivers)
	for kind, d := range c.Drivers {
		c.Drivers[kind] = driver.Contain(d, c.Logger)
	}
	return &Reconciler{
		Config: c, queue: newQueue(c.Now, c.After), shares: newShares(c.Workers), reread: make(chan struct{}, 1),
		cut: cut, cutOff: cutOff, handOver: handOver,
		wishes: newIndex(len(c.Sources) == 0), sources: make([]sourceState, len(c.Sources)),
		targets: map[op.Target]*target{}, limited: map[string]time.Time{}, passes: map[op.Target]*pass{},
	}
}

// Wake says that a target may have work. It does not block.
func (r *Reconciler) Wake(t op.Target) {
	r.mu.Lock()
	r.target(t).woken = true
	r.mu.Unlock()
	r.queue.addUrgent(t)
}

// WakeSigned is Wake for a target with a step that operators signed, or in a job with one. Such a target waits for no
// other.
func (r *Reconciler) WakeSigned(t op.Target) {
	r.mu.Lock()
	r.target(t).woken = true
	r.mu.Unlock()
	r.queue.addSigned(t)
}

// Reread says that a source may have changed. It does not block.
func (r *Reconciler) Reread() {
	select {
	case r.reread <- struct{}{}:
	default:
	}
}

// target returns what is remembered of t. The caller holds r.mu.
func (r *Reconciler) target(t op.Target) *target {
	m := r.targets[t]
	if m == nil {
		m = &target{}
		r.targets[t] = m
	}
	return m
}

// empty reports whether there is nothing to remember.
func (m *target) empty() bool {
	return !m.woken && !m.open && !m.look && !m.adopt && len(m.withdraw) == 0 && len(m.adopted) == 0 && len(m.stopped) == 0 &&
		m.retry == nil && m.hold == nil && m.held == nil && m.attached == nil && m.unknown == ""
}
