package reconcile

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver"
)

// wished is the only kind of target in desired state.
const wished = "guest"

// roundState is the result of the last round over all targets.
type roundState struct {
	number  uint64
	at      time.Time
	took    time.Duration
	drivers map[string]error // by kind; nil if the driver could be asked
}

// look reads every source, lists every driver's targets, and queues each target that may have work. A target that is as
// wished costs no allocation.
func (r *Reconciler) look(ctx context.Context) {
	began := r.Now()
	r.read(ctx)
	r.markSigned(ctx)
	open, err := r.Gate.OpenTargets(ctx)
	if ctx.Err() != nil {
		return // the daemon stops; half a look proves nothing
	}
	if err != nil {
		r.Logger.Error("open steps cannot be read", "error", err)
	}
	var due []op.Target
	r.mu.Lock()
	r.round.number++
	for _, t := range open {
		r.target(t).open = true
		due = append(due, t)
	}
	number := r.round.number
	r.mu.Unlock()

	failed := make(map[string]error, len(r.Drivers))
	for kind, d := range r.Drivers {
		if kind != wished {
			continue // no set can wish for these; their open steps are due already
		}
		list, err := d.List(ctx)
		failed[kind] = err
		if ctx.Err() != nil {
			return
		}
		if failed[kind] != nil {
			r.Logger.Warn("targets cannot be listed", "kind", kind, "error", failed[kind])
		}
		why := driver.Missing(failed[kind])
		if failed[kind] != nil && why == "" {
			continue
		}
		due = append(due, r.compare(kind, number, list, why)...)
	}
	r.mu.Lock()
	r.round.at, r.round.took, r.round.drivers = began, r.Now().Sub(began), failed
	r.mu.Unlock()
	for _, t := range due {
		r.queue.add(t)
	}
}

// markSigned queues the targets with signed steps. The gate told of each when it was signed, but perhaps to an earlier
// process, or the wake was lost.
func (r *Reconciler) markSigned(ctx context.Context) {
	targets, err := r.Gate.SignedTargets(ctx)
	if err != nil && ctx.Err() == nil {
		r.Logger.Error("signed steps cannot be read", "error", err)
	}
	for _, t := range targets {
		r.queue.addSigned(t)
	}
}

// compare returns the targets of one kind that are not as wished. It ignores targets that desired state does not
// mention. A target that is not in the list is absent. If missing says why the list is incomplete, it is unknown.
func (r *Reconciler) compare(kind string, number uint64, list []op.Observed, missing string) []op.Target {
	r.mu.Lock()
	defer r.mu.Unlock()
	ix := r.wishes
	// Nearly all targets are as wished. That check only reads memory, so each processor does a share.
	quiet := make([]bool, len(list))
	var seen atomic.Int64
	inParallel(len(list), func(from, to int) {
		n := int64(0)
		for i := from; i < to; i++ {
			w := ix.wishes[list[i].Target]
			if w == nil {
				quiet[i] = true
				continue
			}
			w.seen = number
			n++
			if quiet[i] = r.isQuiet(w, &list[i]); quiet[i] {
				w.found = asWished
			}
		}
		seen.Add(n)
	})
	var due []op.Target
	now := r.Now()
	for i := range list {
		if !quiet[i] && r.differs(ix.wishes[list[i].Target], &list[i], now) {
			due = append(due, list[i].Target)
		}
	}
	if int(seen.Load()) == len(ix.wishes) {
		return due
	}
	for t, w := range ix.wishes {
		if t.Kind != kind || w.seen == number {
			continue
		}
		if missing != "" {
			w.found = notAsWished
			r.target(t).unknown = missing
			continue
		}
		if r.differs(w, &op.Observed{Target: t, Running: absent}, now) {
			due = append(due, t)
		}
	}
	return due
}

// isQuiet reports whether a target is as wished and there is nothing to remember or forget. It changes nothing. The
// caller holds r.mu.
func (r *Reconciler) isQuiet(w *wish, o *op.Observed) bool {
	m := r.targets[o.Target]
	return m != nil && m.unknown == "" && m.retry == nil && len(m.stopped) == 0 && m.isAdoptedByAll(w, o.Incarnation) &&
		(o.Running == running || o.Running == stopped) && (w.conflict() || len(Plan(*w.guest, *o)) == 0)
}

// inParallel calls fn for parts of 0 to n, one for each processor.
func inParallel(n int, fn func(from, to int)) {
	parts := runtime.GOMAXPROCS(0)
	if n < 1024 {
		parts = 1
	}
	var wg sync.WaitGroup
	for i := range parts {
		wg.Go(func() { fn(n*i/parts, n*(i+1)/parts) })
	}
	wg.Wait()
}

// differs reports whether a target has work. The caller holds r.mu.
func (r *Reconciler) differs(w *wish, o *op.Observed, now time.Time) bool {
	m := r.targets[o.Target]
	w.found = notAsWished
	if o.Present && o.Running != running && o.Running != stopped {
		r.target(o.Target).unknown = unknownWhy(*o)
		return false
	}
	if m != nil {
		m.unknown = ""
	}
	if o.Present && !m.isAdoptedByAll(w, o.Incarnation) {
		if !w.conflict() && len(Plan(*w.guest, *o)) == 0 {
			w.found = asWished // but the gate must be told of it
		}
		r.target(o.Target).adopt = true
		return true
	}
	if w.conflict() || r.isFull(w) {
		return false
	}
	asks := Plan(*w.guest, *o)
	if len(asks) == 0 {
		w.found = asWished
		if m != nil {
			m.converged(now)
			if m.empty() {
				delete(r.targets, o.Target)
			}
		}
		return false
	}
	for i := range asks {
		if m == nil || !m.isStopped(w.guest, asks[i], *o, now) {
			return true
		}
	}
	return false
}

func unknownWhy(o op.Observed) string {
	for _, f := range o.Facts {
		return f.Text
	}
	return "the driver cannot vouch for it"
}

// isAdopted reports whether the gate was told that the set mentions this
// incarnation.
func (m *target) isAdopted(set string, inc op.Incarnation) bool {
	if m == nil {
		return false
	}
	for i := range m.adopted {
		if m.adopted[i].set == set {
			return m.adopted[i].incarnation == inc
		}
	}
	return false
}

// isAdoptedByAll is isAdopted for every set that mentions the target.
func (m *target) isAdoptedByAll(w *wish, inc op.Incarnation) bool {
	for _, set := range w.sets {
		if !m.isAdopted(set, inc) {
			return false
		}
	}
	return true
}

// observe looks at one target. It is an error if the look does not say whether the target runs.
func observe(ctx context.Context, d driver.Driver, l op.Look) (op.Observed, error) {
	o, err := d.Observe(ctx, l)
	if err == nil && o.Present && l.Target.Kind == wished && o.Running != running && o.Running != stopped {
		err = refusal.New(refusal.StaleTarget, "%s: %s", l.Target, unknownWhy(o))
	}
	return o, err
}

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
