package reconcile

import (
	"context"
	"sync"
	"time"
)

// Run works until ctx ends. At once and then at every interval it looks at all targets; in between it works on changes.
// It returns when the steps that had begun are recorded, or a little after StopGrace. Then the journal says that the
// other steps are under way, and the next Recover ends them.
func (r *Reconciler) Run(ctx context.Context) error {
	changed := make(chan struct{}, 1)
	var wg sync.WaitGroup
	for _, s := range r.Sources {
		if n, ok := s.(Notifier); ok {
			wg.Go(func() { forward(ctx, n.Changed(), changed) })
		}
	}
	// Sources are read before any step runs: a wish that was withdrawn while the daemon was down may still have an
	// authorized step.
	r.read(ctx)
	r.markSigned(ctx)
	r.begin(ctx, &wg)
	r.look(ctx)
	r.rounds(ctx, changed)
	r.queue.close()
	r.letEnd(&wg)
	return nil
}

// letEnd waits for the workers: first for steps to end by themselves, then for drivers to return after their contexts
// have ended.
func (r *Reconciler) letEnd(wg *sync.WaitGroup) {
	ended := make(chan struct{})
	go func() { wg.Wait(); close(ended) }()
	if r.within(ended, r.StopGrace) {
		return
	}
	r.Logger.Warn("steps that are under way are cut off", "after", r.StopGrace)
	r.cutOff()
	if !r.within(ended, r.handOver) {
		r.Logger.Warn("a driver does not return; the next start finds out how its step ended", "after", r.handOver)
	}
}

// within reports whether ended is closed before d has passed.
func (r *Reconciler) within(ended <-chan struct{}, d time.Duration) bool {
	passed := make(chan struct{})
	defer r.After(d, func() { close(passed) })()
	select {
	case <-ended:
		return true
	case <-passed:
		return false
	}
}

// rounds looks at all targets at each interval, and reads the sources when they change.
func (r *Reconciler) rounds(ctx context.Context, changed <-chan struct{}) {
	tick := make(chan struct{}, 1)
	for {
		stop := r.After(r.Interval, func() { tick <- struct{}{} })
		for due := false; !due; {
			select {
			case <-ctx.Done():
				stop()
				return
			case <-changed:
				r.read(ctx)
			case <-r.reread:
				r.read(ctx)
			case <-tick:
				due = true
			}
		}
		r.look(ctx)
	}
}

// forward passes changes on; several may become one.
func forward(ctx context.Context, from <-chan struct{}, to chan<- struct{}) {
	for {
		select {
		case <-ctx.Done():
			return
		case _, ok := <-from:
			if !ok {
				return
			}
			select {
			case to <- struct{}{}:
			default:
			}
		}
	}
}
