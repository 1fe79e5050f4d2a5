package reserve

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"gated/internal/op"
)

// waiter is a claim that waits.
type waiter struct {
	*wish
	heft  int // of its patterns
	since time.Time
	woken chan struct{} // holds one, for what changed since it was looked at

	// came is above the ids of all reservations that there were when it came.
	came atomic.Int64
}

// queue is the claims that wait, in the order in which they came. They are in
// memory alone and end with their calls.
type queue struct {
	mu  sync.Mutex
	all []*waiter
}

// join puts a claim behind all others.
func (q *queue) join(w *wish, now time.Time) (*waiter, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if err := q.room(w); err != nil {
		return nil, err
	}
	me := &waiter{wish: w, heft: w.weight(), since: now, woken: make(chan struct{}, 1)}
	me.came.Store(math.MaxInt64)
	q.all = append(q.all, me)
	return me, nil
}

// room refuses a claim where its holder, its uid or everybody waits for much. All
// that overlap what waits have to be compared with it, so it weighs what is in
// force does.
func (q *queue) room(w *wish) error {
	var own, all use
	for _, o := range q.all {
		if o.holder.UID != w.holder.UID {
			continue
		}
		all.reservations, all.weight = all.reservations+1, all.weight+o.heft
		if o.holder.Same(w.holder) {
			own.reservations, own.weight = own.reservations+1, own.weight+o.heft
		}
	}
	heft := w.weight()
	switch {
	case own.reservations >= MaxWaitersPerHolder:
		return op.Refuse(op.OverLimit, "%s waits for %d claims already", w.holder, own.reservations).WithHint("let one of them end first")
	case own.weight+heft > MaxWeight:
		return op.Refuse(op.OverLimit, "%s would wait with patterns that weigh %d bytes, and may with %d", w.holder, own.weight+heft, MaxWeight).
			WithHint("let one of the claims that wait end first, or use wildcards, as in dir/**")
	case all.reservations >= MaxWaitersPerUID:
		return op.Refuse(op.OverLimit, "uid %d waits for %d claims already, under all its names", w.holder.UID, all.reservations).
			WithHint("let one of them end first")
	case all.weight+heft > MaxWeightPerUID:
		return op.Refuse(op.OverLimit, "uid %d would wait with patterns that weigh %d bytes, under all its names, and may with %d", w.holder.UID,
			all.weight+heft, MaxWeightPerUID).WithHint("let one of the claims that wait end first")
	case len(q.all) >= MaxWaiters:
		return op.Refuse(op.OverLimit, "%d claims wait already", len(q.all)).WithHint("ask again later")
	}
	return nil
}

// leave takes a claim out. Those behind it that it kept waiting look again.
func (q *queue) leave(me *waiter) {
	q.mu.Lock()
	q.all = slices.DeleteFunc(slices.Clone(q.all), func(o *waiter) bool { return o == me })
	q.mu.Unlock()
	q.wake([]region{me.region}, nil)
}

// before returns the claims that came before one, or all for nil.
func (q *queue) before(me *waiter) []*waiter {
	q.mu.Lock()
	defer q.mu.Unlock()
	all := q.all
	if i := slices.Index(all, me); me != nil && i >= 0 {
		all = all[:i]
	}
	return slices.Clip(all)
}

// wake makes those look again whom it may concern that regions are free, or that
// holders were given something. Who joins meanwhile looks after it.
func (q *queue) wake(free []region, gained []Holder) {
	left := int64(wakeWork)
	for _, w := range q.before(nil) {
		if slices.ContainsFunc(gained, w.holder.Same) || slices.ContainsFunc(free, func(r region) bool { return w.concerned(r, &left) }) {
			w.wake()
		}
	}
}

// wakeHolder makes the claims of one registration look again.
func (q *queue) wakeHolder(h Holder) {
	for _, w := range q.before(nil) {
		if h.Registration != 0 && w.holder.Registration == h.Registration {
			w.wake()
		}
	}
}

// concerned reports whether a region may be what the claim waits for. What takes
// too long to find out may be.
func (w *waiter) concerned(r region, left *int64) bool {
	if r.patterns == nil {
		return true
	}
	overlap, ok := w.overlaps(r, left)
	return overlap || !ok
}

func (w *waiter) wake() {
	select {
	case w.woken <- struct{}{}:
	default:
	}
}

// waitingFor returns the names of agents other than the holder that wait for
// something in a region: of the first few, for they are written down, and all are
// woken anyway.
func waitingFor(all []*waiter, r region, h Holder, left *int64) []string {
	var out []string
	for _, w := range all {
		if len(out) == maxNamed {
			break
		}
		if w.holder.Name != "" && !w.holder.Same(h) && !slices.Contains(out, w.holder.Name) && w.concerned(r, left) {
			out = append(out, w.holder.Name)
		}
	}
	slices.Sort(out)
	return out
}
