package several

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/driver"
	"gated/internal/driver/memory"
)

// mode is how a back end of tests behaves.
type mode int

const (
	well      mode = iota
	away           // every call fails
	hanging        // no call returns before its context ends
	stuck          // no call returns before the test ends
	panicking      // every call panics
	lying          // looks return another guest
	twice          // lists have each guest twice
)

// fake is a back end with guests in memory. It can misbehave.
type fake struct {
	*memory.Driver
	name string

	mu       sync.Mutex
	mode     mode
	patience chan struct{} // closed when a call hangs, so that its time is up
	freed    chan struct{} // closed when the test ends
	asked    map[string]int
	tasks    bool // an action leaves a task
}

func (f *fake) Name() string { return f.name }

func (f *fake) is(m mode) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mode, f.patience = m, make(chan struct{})
}

func (f *fake) calls(what string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asked[what]
}

// behave fails as the current mode says.
func (f *fake) behave(ctx context.Context, what string) error {
	f.mu.Lock()
	f.asked[what]++
	m := f.mode
	if (m == hanging || m == stuck) && !closed(f.patience) {
		close(f.patience)
	}
	f.mu.Unlock()
	switch m {
	case away:
		return errors.New("connection refused")
	case hanging:
		<-ctx.Done()
		return ctx.Err()
	case stuck:
		<-f.freed
		return errors.New("freed")
	case panicking:
		panic("a nil map")
	}
	return nil
}

func closed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// limit ends when a call of the back end hangs, and not before.
func (f *fake) limit(parent context.Context, _ time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(parent)
	f.mu.Lock()
	up := f.patience
	f.mu.Unlock()
	go func() {
		select {
		case <-up:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

func (f *fake) List(ctx context.Context) ([]op.Observed, error) {
	if err := f.behave(ctx, "list"); err != nil {
		return nil, err
	}
	all, err := f.Driver.List(ctx)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mode == twice {
		all = append(append([]op.Observed{}, all...), all...)
	}
	return all, err
}

func (f *fake) Observe(ctx context.Context, l op.Look) (op.Observed, error) {
	if err := f.behave(ctx, "look"); err != nil {
		return op.Observed{}, err
	}
	o, err := f.Driver.Observe(ctx, l)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mode == lying {
		o.Target.Name = "another"
	}
	return o, err
}

func (f *fake) Prepare(ctx context.Context, step op.Step, cleanup func(func())) (op.Observed, driver.Action, error) {
	if err := f.behave(ctx, "prepare"); err != nil {
		return op.Observed{}, driver.Action{}, err
	}
	now, act, err := f.Driver.Prepare(ctx, step, cleanup)
	return now, driver.Around(act, func(ctx context.Context, do driver.Work) (driver.Result, error) {
		done, err := do(ctx)
		if err == nil && f.tasks {
			done.Task = "UPID:1"
		}
		return done, err
	}), err
}

func (f *fake) Task(ctx context.Context, task string) (driver.Progress, error) {
	if err := f.behave(ctx, "task "+task); err != nil {
		return driver.Progress{}, err
	}
	return driver.Progress{Done: true}, nil
}

func (f *fake) Check(ctx context.Context) []driver.Finding {
	if err := f.behave(ctx, "check"); err != nil {
		return []driver.Finding{{What: "reachable", State: driver.Bad, Detail: err.Error()}}
	}
	return []driver.Finding{{What: "reachable", State: driver.OK}}
}

// world is several back ends. The first makes new guests.
type world struct {
	t    *testing.T
	time time.Time
	all  []*fake
	*Driver
}

func (w *world) now() time.Time { return w.time }

func newFakes(t *testing.T, names ...string) *world {
	w := &world{t: t, time: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	freed := make(chan struct{})
	t.Cleanup(func() { close(freed) })
	for _, name := range names {
		f := &fake{Driver: memory.New(w.now), name: name, patience: make(chan struct{}), freed: freed, asked: map[string]int{}}
		w.all = append(w.all, f)
	}
	return w
}

func (w *world) config() Config {
	c := Config{Now: w.now, Logger: slog.New(slog.DiscardHandler), NewGuests: w.all[0].name,
		limitOf: func(name string) limit {
			for _, f := range w.all {
				if f.name == name {
					return f.limit
				}
			}
			return context.WithTimeout
		}}
	for _, f := range w.all {
		c.Backends = append(c.Backends, f)
	}
	return c
}

func (w *world) open() error {
	d, err := New(w.t.Context(), w.config())
	w.Driver = d
	return err
}

// newWorld returns back ends a and b. New guests are made in a.
func newWorld(t *testing.T) (w *world, a, b *fake) {
	w = newFakes(t, "a", "b")
	require.NoError(t, w.open())
	t.Cleanup(func() { require.NoError(t, w.Close()) })
	return w, w.all[0], w.all[1]
}

func guest(name string) op.Target { return op.Target{Kind: "guest", Name: name} }

// listed returns the state and the back end of each guest in the list, and the reason if the
// list is incomplete.
func (w *world) listed() (map[string]string, string) {
	w.t.Helper()
	all, err := w.List(w.t.Context())
	missing := driver.Missing(err)
	if missing == "" {
		require.NoError(w.t, err)
	}
	out := map[string]string{}
	for _, o := range all {
		require.NotContains(w.t, out, o.Target.Name, "listed twice")
		require.True(w.t, o.Present)
		out[o.Target.Name] = o.Running + " " + o.Backend
	}
	return out, missing
}

func (w *world) look(name string) (op.Observed, error) {
	return w.Observe(w.t.Context(), op.At(guest(name)))
}
