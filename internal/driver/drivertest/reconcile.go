package drivertest

import (
	"context"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/driver"
	"gated/internal/reconcile"
)

// Intervals of the reconciler. The long one never passes in a test. The short one is shorter
// than usual, so that the reconciler asks for a back end's tasks at once.
const (
	never  = time.Hour
	atOnce = 2 * time.Millisecond
)

// Reconcile runs the real reconciler, its recovery first, until no step is running and nothing
// is left to do at once. It returns the reconciler's status.
func (g *Gate) Reconcile(sources ...reconcile.Source) reconcile.Status {
	g.t.Helper()
	const interval = 17 * never
	looked := make(chan struct{})
	var once sync.Once
	r := reconcile.New(reconcile.Config{Gate: g.Gate, Drivers: map[string]driver.Driver{g.kind: g.Driver()}, Sources: sources,
		Host: Host, Interval: interval, StopGrace: never, Now: func() time.Time { return g.now },
		After: func(d time.Duration, fn func()) func() {
			switch {
			case d == interval:
				once.Do(func() { close(looked) })
				return func() {}
			case d >= never:
				return func() {}
			}
			timer := time.AfterFunc(min(d, atOnce), fn)
			return func() { timer.Stop() }
		}})
	wake := r.Wake
	g.wake.Store(&wake)
	defer g.wake.Store(nil)
	require.NoError(g.t, r.Recover(g.ctx))
	ctx, cancel := context.WithCancel(g.ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	returns(g.t, "the reconciler's first round", func() { <-looked })
	within(g.t, "the reconciler comes to rest", func() bool {
		if q := r.Status().Queue; q.Waiting > 0 || q.Working > 0 {
			return false
		}
		under, err := g.Dispatched(g.ctx)
		return err == nil && len(under) == 0
	})
	status := r.Status()
	cancel()
	returns(g.t, "the reconciler's end", func() { require.NoError(g.t, <-ended) })
	return status
}
