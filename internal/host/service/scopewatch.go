package service

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"time"

	"gated/internal/base/op"
)

// scopeRest is the least time between two rounds. A request that waits for a signature must not get a new payload, each
// time agents come and go, faster than an operator can sign it.
const scopeRest = time.Second

// scopesUnasked is how many scopes may have an open step before the gate is asked which of them still do, even without
// changes in them.
const scopesUnasked = 1024

// openSteps lists the steps that wait or run; *gate.Gate is one.
type openSteps interface {
	OpenTargets(ctx context.Context) ([]op.Target, error)
}

// ScopeWatch passes on changes of scopes that have open steps. Reservations change all the time; other scopes cost
// nothing.
type ScopeWatch struct {
	gate openSteps
	wake func(op.Target)
	log  *slog.Logger

	mu      sync.Mutex
	times   uint64               // counts the steps that Asked was called for
	open    map[op.Target]uint64 // scopes that may have an open step, with times at the last call of Asked
	changed map[op.Target]bool   // of these, changed since the last round
	many    int                  // with so many in open, a round is worth its cost
	soon    chan struct{}        // has room for one signal
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

// Asked is called for each target that may have a step to work on.
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

// Moved is called for each scope whose reservations changed. It does not block.
func (w *ScopeWatch) Moved(t op.Target) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.open[t] == 0 {
		return
	}
	w.changed[t] = true
	w.hurry()
}

// hurry makes a round begin as soon as scopeRest has passed since the last one.
func (w *ScopeWatch) hurry() {
	select {
	case w.soon <- struct{}{}:
	default:
	}
}

// Run wakes the changed scopes until ctx ends.
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

// round wakes each scope that changed and has an open step, and forgets those without one. It asks the gate once for
// all.
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

// keep forgets the scopes that have no open step, also in due. It keeps those that Asked named after until, because
// list may lack them.
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
