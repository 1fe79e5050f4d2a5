// Package several makes one driver of the guests of several back ends. A guest is in one of
// them, and a name means one guest of the whole gate. If two back ends have a name, no step can
// use it. While a back end is away, no name is called free.
package several

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver"
)

// guestKind is the kind of the targets of all back ends.
const guestKind = "guest"

// Config names the back ends.
type Config struct {
	// Backends is at least one back end of kind guest, each with its own name.
	Backends []driver.Backend
	// NewGuests names the back end for new guests. It may be empty if there is only one.
	NewGuests string

	Now    func() time.Time
	Logger *slog.Logger

	// limitOf replaces, in tests, the time limit of looks at a back end.
	limitOf func(name string) limit
}

// limit sets a time limit, as context.WithTimeout does.
type limit func(context.Context, time.Duration) (context.Context, context.CancelFunc)

// Driver is the driver of all back ends. It is safe for concurrent use.
type Driver struct {
	members []*member
	makes   int // index in members: the back end for new guests
	log     *slog.Logger
	stop    context.CancelFunc
}

var _ driver.Driver = (*Driver)(nil)

// New lists every back end once. A back end may be away: its guests are unknown until it is
// back. New refuses a name that two back ends have, with Conflict.
func New(ctx context.Context, c Config) (*Driver, error) {
	if c.limitOf == nil {
		c.limitOf = func(string) limit { return context.WithTimeout }
	}
	base, stop := context.WithCancel(context.WithoutCancel(ctx))
	d := &Driver{log: c.Logger, stop: stop, makes: -1}
	for i, b := range c.Backends {
		if b.Kind() != guestKind {
			stop()
			return nil, refusal.New(refusal.BadParams, "the back end %s has no guests", b.Name())
		}
		if b.Name() == c.NewGuests || c.NewGuests == "" && len(c.Backends) == 1 {
			d.makes = i
		}
		d.members = append(d.members, newMember(base, b, c))
	}
	if d.makes < 0 {
		stop()
		return nil, refusal.New(refusal.BadParams, "new_guests names no back end that is configured: %q", c.NewGuests)
	}
	_, claims, err := d.look(ctx)
	if err == nil && len(claims) > 0 {
		err = refuseClaims(claims)
	}
	if err != nil {
		stop()
		return nil, err
	}
	return d, nil
}

// refuseClaims refuses the names that two back ends have. It lists only a few of them.
func refuseClaims(claims []claim) error {
	const most = 5
	var said []string
	for _, c := range claims[:min(len(claims), most)] {
		said = append(said, fmt.Sprintf("guest/%s is in %s", c.name, strings.Join(c.by, " and in ")))
	}
	if more := len(claims) - most; more > 0 {
		said = append(said, fmt.Sprintf("and so are %d more", more))
	}
	return refusal.New(refusal.Conflict, "a name means one guest of the whole gate, and %s", strings.Join(said, "; ")).
		WithHint("rename or remove one of them with the back end's own tools, or give it a gate of its own")
}

// Kind returns "guest".
func (*Driver) Kind() string { return guestKind }

// closing is how long Close waits for running looks. A look that hangs longer meets a closed
// back end, and its answer is dropped.
const closing = 2 * time.Second

// Close ends the looks whose callers left. The caller that opened the back ends closes them.
func (d *Driver) Close() error {
	d.stop()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for _, m := range d.members {
			m.lists.running.Wait()
			m.looks.running.Wait()
		}
	}()
	waits, cancel := context.WithTimeout(context.Background(), closing)
	defer cancel()
	select {
	case <-ended:
	case <-waits.Done():
	}
	return nil
}

// Names returns the names of the back ends, in the order in which they were given.
func (d *Driver) Names() []string {
	out := make([]string, len(d.members))
	for i, m := range d.members {
		out[i] = m.name
	}
	return out
}

// named returns the index of the back end of that name, or -1.
func (d *Driver) named(name string) int {
	return slices.IndexFunc(d.members, func(m *member) bool { return m.name == name })
}

// State is the health of one back end.
type State struct {
	Name      string
	Kind      string
	Away      string    // why its targets are not known; empty if the back end is there
	Since     time.Time // since when it is away or there
	Targets   int       // by the last list
	NewGuests bool      // it makes new guests
}

// States returns the state of each back end at its last look.
func (d *Driver) States() []State {
	out := make([]State, len(d.members))
	for i, m := range d.members {
		m.mu.Lock()
		out[i] = State{Name: m.name, Kind: guestKind, Away: m.why, Since: m.since, Targets: len(m.last), NewGuests: i == d.makes}
		m.mu.Unlock()
		if since, late := m.looks.hangs(); late && out[i].Away == "" {
			out[i].Away, out[i].Since = reason(tooLate(lookPatience)), since
		}
	}
	return out
}

// Check checks the back end of that name as Checker.Check does. The name must be one of Names.
func (d *Driver) Check(ctx context.Context, name string) ([]driver.Finding, time.Time) {
	return d.members[d.named(name)].checker.Check(ctx)
}

const (
	// checkLimit is how long a check of a back end may take. checkPatience is how long a caller
	// waits for its end.
	checkLimit    = 8 * time.Second
	checkPatience = 10 * time.Second
	// checkEvery is the shortest time between two checks of a back end.
	checkEvery = 5 * time.Second
)

// Checker checks one back end, but not too often. It is safe for concurrent use.
type Checker struct {
	backend driver.Backend
	base    context.Context
	limit   limit
	now     func() time.Time
	log     *slog.Logger

	mu   sync.Mutex
	last *checkup
}

// checkup is one check, running or done.
type checkup struct {
	done  chan struct{} // closed when found is set
	began time.Time
	found []driver.Finding
}

// NewChecker returns the checker of one back end. If ctx ends, its checks end.
func NewChecker(ctx context.Context, b driver.Backend, now func() time.Time, log *slog.Logger) *Checker {
	return &Checker{backend: b, base: context.WithoutCancel(ctx), limit: context.WithTimeout, now: now, log: log}
}

// Check returns the findings of the back end, and the time of its check: now or some seconds
// ago. If the back end does not answer or panics, there is one bad finding.
func (c *Checker) Check(ctx context.Context) ([]driver.Finding, time.Time) {
	k := c.current()
	waiting, stop := c.limit(ctx, max(0, checkPatience-c.now().Sub(k.began)))
	defer stop()
	select {
	case <-k.done:
		return k.found, k.began
	case <-waiting.Done():
	}
	select {
	case <-k.done: // both are ready
		return k.found, k.began
	default:
		return unreachable(fmt.Sprintf("it has not answered within %s", checkPatience)), k.began
	}
}

// unreachable is the only finding for a back end that does not answer.
func unreachable(why string) []driver.Finding {
	return []driver.Finding{{What: "reachable", State: driver.Bad, Detail: why,
		Hint: "see whether the back end runs, and whether gated.yaml names the right place; the daemon's log says more"}}
}

// current returns the running check, or one that is recent. Otherwise it begins one.
func (c *Checker) current() *checkup {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last != nil {
		select {
		case <-c.last.done:
			if age := c.now().Sub(c.last.began); age >= 0 && age < checkEvery {
				return c.last
			}
		default:
			return c.last // also a check that hangs: two checks never run at the same time
		}
	}
	k := &checkup{done: make(chan struct{}), began: c.now()}
	c.last = k
	go func() {
		defer close(k.done)
		bounded, cancel := c.limit(c.base, checkLimit)
		defer cancel()
		err := driver.Safely(c.log, "a check of "+c.backend.Name(), func() error { k.found = c.backend.Check(bounded); return nil })
		if err != nil {
			k.found = unreachable("asking it failed: " + err.Error())
		}
	}()
	return k
}

// taskSep stands between the name of a back end and the back end's id of a task.
const taskSep = ":"

// Prepare lets a back end prepare the step: the one that has the target now, or the one that
// would make it. The driver looks in all of them. It refuses a name that another back end has
// meanwhile. If no back end has the name and one is away, the step waits.
func (d *Driver) Prepare(ctx context.Context, step op.Step, cleanup func(func())) (op.Observed, driver.Action, error) {
	i, o, err := d.locate(ctx, step.Look())
	if err == nil {
		err = d.alike(ctx, step.Look(), o, (*member).list)
	}
	if err != nil {
		return op.Observed{}, driver.Action{}, err
	}
	m := d.members[i]
	now, act, err := m.Prepare(ctx, step, cleanup)
	return now, driver.Around(act, func(ctx context.Context, do driver.Work) (driver.Result, error) {
		done, err := do(ctx)
		m.moves(true)
		if done.Task != "" {
			done.Task = m.name + taskSep + done.Task
		}
		return done, err
	}), err
}

// Task asks the back end of the task. If that back end is not configured any more, it counts as
// away, because only it has the task's result.
func (d *Driver) Task(ctx context.Context, task string) (driver.Progress, error) {
	name, id, ok := strings.Cut(task, taskSep)
	if !ok {
		return driver.Progress{}, refusal.New(refusal.UnknownTarget, "no back end gave a task the id %q", task)
	}
	i := d.named(name)
	if i < 0 {
		return driver.Progress{}, refusal.New(refusal.Unavailable, "task %s is of the back end %s, which is not configured",
			task, op.Shown(name)).
			WithHint("configure it again until its tasks have ended")
	}
	m := d.members[i]
	if len(d.members) == 1 {
		return m.Task(ctx, id)
	}
	return ask(ctx, &m.looks, func(ctx context.Context) (driver.Progress, error) { return m.Task(ctx, id) })
}
