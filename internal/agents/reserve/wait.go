package reserve

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"gated/internal/base/refusal"
	"gated/internal/base/store"
)

// wait puts a claim behind those that wait, and decides it again after each change that may concern it. It joins the
// queue before its first look, so it misses no change. The end of the wait does not cut off an attempt that has begun.
// If the claim's agent ended, the refusal is NotHolder.
func (b *Book) wait(ctx context.Context, w *wish, limit time.Duration) (Granted, []Conflict, error) {
	me, err := b.queue.join(w, b.cfg.Now())
	if err != nil {
		return Granted{}, nil, err
	}
	defer b.queue.leave(me)
	if err := b.arrive(ctx, me); err != nil {
		return Granted{}, nil, err
	}
	waiting, stop := context.WithTimeout(ctx, limit)
	defer stop()
	for {
		g, conflicts, err := b.attempt(ctx, w, me)
		if !errors.Is(err, refusal.Conflict) {
			return g, conflicts, err
		}
		if len(w.known.hits) > MaxConflicts {
			w.known = new(survey) // free it: many claims may wait
		}
		select {
		case <-me.woken:
		case <-waiting.Done():
			if ctx.Err() != nil {
				return Granted{}, nil, fmt.Errorf("waiting for paths: %w", context.Cause(ctx))
			}
			return Granted{}, conflicts, waited(err, limit)
		}
	}
}

const sqlNewest = `SELECT coalesce(max(id), 0) FROM reservations`

// arrive records which reservations existed when a claim began to wait.
func (b *Book) arrive(ctx context.Context, me *waiter) error {
	return b.snapshot(ctx, func(tx *store.Tx) error {
		var newest int64
		err := tx.QueryRow(sqlNewest).Scan(&newest)
		if err == nil {
			me.came.Store(newest + 1)
		}
		return err
	})
}

// waited adds to a refusal that it came after a wait.
func waited(err error, limit time.Duration) error {
	r := *refusal.As(err)
	r.Detail += fmt.Sprintf(" (after a wait of %v)", limit)
	return &r
}

// waiter is a claim that waits.
type waiter struct {
	*wish
	heft  int // of its patterns
	since time.Time
	woken chan struct{} // has room for one signal: something changed since the claim was last decided

	// came is above the ids of all reservations that existed when the claim came.
	came atomic.Int64
}

// queue is the claims that wait, in the order in which they came. They are in memory alone and end with their calls.
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

// room refuses a claim if its holder, its uid or all together wait for too much. A claim is compared with all that
// wait, so it weighs as much as a reservation.
func (q *queue) room(w *wish) error {
	var own, all use
	for _, o := range q.all {
		if o.holder.Account() != w.holder.Account() {
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
		return refusal.New(refusal.OverLimit, "%s waits for %d claims already", w.holder, own.reservations).
			WithHint("let one of them end first")
	case own.weight+heft > MaxWeight:
		return refusal.New(refusal.OverLimit, "%s would wait with patterns that weigh %d bytes, and may with %d", w.holder,
			own.weight+heft, MaxWeight).
			WithHint("let one of the claims that wait end first, or use wildcards, as in dir/**")
	case all.reservations >= MaxWaitersPerUID:
		return refusal.New(refusal.OverLimit, "uid %v waits for %d claims already, under all its names",
			w.holder.Account(), all.reservations).
			WithHint("let one of them end first")
	case all.weight+heft > MaxWeightPerUID:
		return refusal.New(refusal.OverLimit,
			"uid %v would wait with patterns that weigh %d bytes, under all its names, and may with %d", w.holder.Account(),
			all.weight+heft, MaxWeightPerUID).WithHint("let one of the claims that wait end first")
	case len(q.all) >= MaxWaiters:
		return refusal.New(refusal.OverLimit, "%d claims wait already", len(q.all)).WithHint("ask again later")
	}
	return nil
}

// leave removes a claim. Those behind it that it kept waiting look again.
func (q *queue) leave(me *waiter) {
	q.mu.Lock()
	q.all = slices.DeleteFunc(slices.Clone(q.all), func(o *waiter) bool { return o == me })
	q.mu.Unlock()
	q.wake([]region{me.region}, nil)
}

// before returns the claims that came before me, or all for nil.
func (q *queue) before(me *waiter) []*waiter {
	q.mu.Lock()
	defer q.mu.Unlock()
	all := q.all
	if i := slices.Index(all, me); me != nil && i >= 0 {
		all = all[:i]
	}
	return slices.Clip(all)
}

// wake makes claims look again if freed regions, or holders that got something, may concern them. A claim that joins
// meanwhile looks after its join.
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

// concerned reports whether the claim may wait for a region. If the work does not suffice to tell, it may.
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

// waitingFor returns the names of the first few other agents that wait for something in a region. It needs only a few,
// because the log names them. All of them are woken anyway.
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
