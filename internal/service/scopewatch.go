package service

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"time"

	"gated/internal/op"
)

// scopeRest is the least time between two rounds of looking at scopes again: a
// request that waits for a signature must not be issued anew faster than
// somebody could sign it because agents come and go.
const scopeRest = time.Second

// scopesUnasked is how many scopes may have an open step, at the least, before
// the gate is asked which of them do, although nothing changed in them.
const scopesUnasked = 1024

// openSteps is where the steps are that wait or run; *gate.Gate is one.
type openSteps interface {
	OpenTargets(ctx context.Context) ([]op.Target, error)
}

// ScopeWatch passes on which scopes changed of those on which steps are open.
// Reservations come and go all the time; of the others it costs nothing.
type ScopeWatch struct {
	gate openSteps
	wake func(op.Target)
	log  *slog.Logger

	mu      sync.Mutex
	times   uint64               // how often a step was told of
	open    map[op.Target]uint64 // scopes that may have an open step, and when that was told
	changed map[op.Target]bool   // of these, since the last round
	many    int                  // so many in open are worth a round
	soon    chan struct{}        // holds one
}

// WatchScopes begins with the scopes that have open steps now.
func WatchScopes(ctx context.Context, g openSteps, wake func(op.Target), log *slog.Logger) (*ScopeWatch, error) {
	w := &ScopeWatch{gate: g, wake: wake, log: log, open: map[op.Target]uint64{}, changed: map[op.Target]bool{},
		many: scopesUnasked, soon: make(chan struct{}, 1)}
	list, err := g.OpenTargets(ctx)
	for _, t := range list {
		w.Asked(t)
	}
	return w, err
}

// Asked is told of each target that may have a step to be worked on.
func (w *ScopeWatch) Asked(t op.Target) {
	if t.Kind != op.KindScope {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.times++
	w.open[t] = w.times
	if len(w.open) > w.many {
		w.hurry()
	}
}

// Moved is told of each scope whose reservations changed. It does not block.
func (w *ScopeWatch) Moved(t op.Target) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.open[t] == 0 {
		return
	}
	w.changed[t] = true
	w.hurry()
}

// hurry has a round begin as soon as the last one is long enough ago.
func (w *ScopeWatch) hurry() {
	select {
	case w.soon <- struct{}{}:
	default:
	}
}

// Run wakes what changed until ctx ends.
func (w *ScopeWatch) Run(ctx context.Context) error {
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
// that have none. It asks once, however many there are.
func (w *ScopeWatch) round(ctx context.Context) {
	w.mu.Lock()
	due, until := w.changed, w.times
	w.changed = map[op.Target]bool{}
	w.mu.Unlock()
	list, err := w.gate.OpenTargets(ctx)
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		w.log.Warn("on which scopes steps are open cannot be read", "error", err)
	} else {
		w.keep(list, due, until)
	}
	for t := range due {
		w.wake(t)
	}
}

// keep forgets the scopes that have no open step, also as due, but for those that
// were told of after the moment until, of which list does not know.
func (w *ScopeWatch) keep(list []op.Target, due map[op.Target]bool, until uint64) {
	open := make(map[op.Target]bool, len(list))
	for _, t := range list {
		open[t] = true
	}
	maps.DeleteFunc(due, func(t op.Target, _ bool) bool { return !open[t] })
	w.mu.Lock()
	defer w.mu.Unlock()
	maps.DeleteFunc(w.open, func(t op.Target, told uint64) bool { return !open[t] && told <= until })
	w.many = max(scopesUnasked, 2*len(w.open))
}
