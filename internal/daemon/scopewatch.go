package daemon

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"gated/internal/op"
)

// scopeRest is the least time between two rounds of looking at scopes again: a
// request that waits for a signature must not be issued anew faster than
// somebody could sign it because agents come and go.
const scopeRest = time.Second

// openSteps is where the steps are that wait or run; *gate.Gate is one.
type openSteps interface {
	Open(ctx context.Context, t op.Target) ([]op.Step, error)
	OpenTargets(ctx context.Context) ([]op.Target, error)
}

// scopeWatch passes on which scopes changed of those on which steps are open.
// Reservations come and go all the time; of the others it costs nothing.
type scopeWatch struct {
	gate openSteps
	wake func(op.Target)
	log  *slog.Logger

	mu      sync.Mutex
	times   uint64               // how often a step was told of
	open    map[op.Target]uint64 // scopes that may have an open step, and when that was told
	changed map[op.Target]bool   // of these, since the last round
	soon    chan struct{}        // holds one
}

// watchScopes begins with the scopes that have open steps now.
func watchScopes(ctx context.Context, g openSteps, wake func(op.Target), log *slog.Logger) (*scopeWatch, error) {
	w := &scopeWatch{gate: g, wake: wake, log: log, open: map[op.Target]uint64{}, changed: map[op.Target]bool{},
		soon: make(chan struct{}, 1)}
	list, err := g.OpenTargets(ctx)
	for _, t := range list {
		w.asked(t)
	}
	return w, err
}

// asked is told of each target that may have a step to be worked on.
func (w *scopeWatch) asked(t op.Target) {
	if t.Kind != op.KindScope {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.times++
	w.open[t] = w.times
}

// moved is told of each scope whose reservations changed. It does not block.
func (w *scopeWatch) moved(t op.Target) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.open[t] == 0 {
		return
	}
	w.changed[t] = true
	select {
	case w.soon <- struct{}{}:
	default:
	}
}

// run wakes what changed until ctx ends.
func (w *scopeWatch) run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-w.soon:
		}
		w.round(ctx)
		rest := time.NewTimer(scopeRest)
		select {
		case <-ctx.Done():
			rest.Stop()
			return nil
		case <-rest.C:
		}
	}
}

// round wakes each scope that changed and has an open step, and forgets those
// that have none.
func (w *scopeWatch) round(ctx context.Context) {
	w.mu.Lock()
	due := make(map[op.Target]uint64, len(w.changed))
	for t := range w.changed {
		due[t] = w.open[t]
	}
	clear(w.changed)
	w.mu.Unlock()
	for t, told := range due {
		steps, err := w.gate.Open(ctx, t)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			w.log.Warn("whether a step is open on a scope cannot be read", "scope", t.String(), "error", err)
		}
		if err == nil && len(steps) == 0 {
			w.forget(t, told)
			continue
		}
		w.wake(t)
	}
}

// forget says that a scope had no open step, unless one was told of since.
func (w *scopeWatch) forget(t op.Target, told uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.open[t] == told {
		delete(w.open, t)
	}
}
