package reconcile

import (
	"sync"
	"time"

	"gated/internal/base/op"
)

// queue hands targets to workers. Each target is in it once, and never with two workers at a time. A target that is
// added while a worker has it comes again afterwards, so no change is lost. A target with a signed step goes before all
// others, and has workers of its own. Next come targets that a caller waits for, then those that a round found, which
// can be very many. Looks for which no step waits are a queue of their own.
type queue struct {
	now   func() time.Time
	after func(time.Duration, func()) (stop func())

	mu      sync.Mutex
	ready   sync.Cond
	order   [levels][]op.Target // an entry counts only if waiting or looks says the same level
	waiting map[op.Target]level // in order, or to be added when its worker is done
	looks   map[op.Target]bool  // the same for targets to look at
	signed  map[op.Target]uint64
	marks   uint64
	busy    map[op.Target]func() // the function ends a look for which a signed step waits; nil for work
	delayed map[op.Target]delay
	taken   uint64
	closed  bool
}

// level is how soon a target is handed out.
type level int

const (
	signed  level = iota // operators authorized a step of it
	urgent               // a caller waits
	routine              // a round found it
	looking              // its waiting requests must be looked at again
	levels
)

// everyRoutine is how often a routine target goes first, so that urgent ones cannot starve them.
const everyRoutine = 8

type delay struct {
	at   time.Time
	stop func()
}

func newQueue(now func() time.Time, after func(time.Duration, func()) func()) *queue {
	q := &queue{now: now, after: after, waiting: map[op.Target]level{}, looks: map[op.Target]bool{}, signed: map[op.Target]uint64{},
		busy: map[op.Target]func(){}, delayed: map[op.Target]delay{}}
	q.ready.L = &q.mu
	return q
}

// add queues t behind all others. It does not block.
func (q *queue) add(t op.Target) { q.put(t, routine) }

// addUrgent queues t before what rounds found. It does not block.
func (q *queue) addUrgent(t op.Target) { q.put(t, urgent) }

// addSigned queues t before all unsigned work, from now on until unmark. If a worker looks at t, the look is ended. It
// does not block.
func (q *queue) addSigned(t op.Target) {
	q.mu.Lock()
	q.marks++
	q.signed[t] = q.marks
	if end := q.busy[t]; end != nil {
		end()
	}
	q.mu.Unlock()
	q.put(t, signed)
}

// mark returns the argument for unmark: 0 for a target that is not marked.
func (q *queue) mark(t op.Target) uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.signed[t]
}

// unmark ends what addSigned began, unless addSigned was called again after mark.
func (q *queue) unmark(t op.Target, mark uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.signed[t] == mark {
		delete(q.signed, t)
	}
}

func (q *queue) put(t op.Target, l level) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.signed[t] != 0 {
		l = signed
	}
	if old, ok := q.waiting[t]; q.closed || ok && old <= l {
		return
	}
	q.waiting[t] = l
	q.line(t, l)
}

// addLook queues t for a worker that looks. It does not block.
func (q *queue) addLook(t op.Target) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || q.looks[t] {
		return
	}
	q.looks[t] = true
	q.line(t, looking)
}

// line puts a target in order. If a worker has it, done does that later. The caller holds mu.
func (q *queue) line(t op.Target, l level) {
	if _, ok := q.busy[t]; !ok {
		q.order[l] = append(q.order[l], t)
		q.ready.Broadcast() // not every waiting worker may take it
	}
}

// addAfter adds t after d. Of several delays the shortest counts.
func (q *queue) addAfter(t op.Target, d time.Duration) {
	if d <= 0 {
		q.add(t)
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	at := q.now().Add(d)
	old, ok := q.delayed[t]
	if q.closed || ok && !at.Before(old.at) {
		return
	}
	if ok {
		old.stop()
	}
	q.delayed[t] = delay{at: at, stop: q.after(d, func() { q.due(t, at) })}
}

func (q *queue) due(t op.Target, at time.Time) {
	q.mu.Lock()
	if q.delayed[t].at.Equal(at) {
		delete(q.delayed, t)
	}
	q.mu.Unlock()
	q.add(t)
}

// get waits for a target to work on; false when the queue is closed. The caller then calls done with it.
func (q *queue) get() (op.Target, bool) { return q.take(nil, signed, urgent, routine) }

// getSigned is get for a worker for signed steps alone.
func (q *queue) getSigned() (op.Target, bool) { return q.take(nil, signed) }

// getLook is get for a worker that looks. The queue calls end if a signed step of the target waits for the look; end
// must not block.
func (q *queue) getLook(end func()) (op.Target, bool) { return q.take(end, looking) }

func (q *queue) take(end func(), from ...level) (op.Target, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for !q.closed {
		for _, l := range q.fairly(from) {
			if t, ok := q.pop(l); ok {
				q.busy[t] = end
				return t, true
			}
		}
		q.ready.Wait()
	}
	return op.Target{}, false
}

// fairly returns from, at times with a routine target before the urgent ones.
func (q *queue) fairly(from []level) []level {
	if len(from) == int(routine)+1 && q.taken%everyRoutine == everyRoutine-1 {
		return []level{signed, routine, urgent}
	}
	return from
}

// pop takes the first waiting target of a level.
func (q *queue) pop(l level) (op.Target, bool) {
	for len(q.order[l]) > 0 {
		t := q.order[l][0]
		q.order[l] = q.order[l][1:]
		if _, busy := q.busy[t]; busy || !q.waits(t, l) {
			continue
		}
		if l == looking {
			delete(q.looks, t)
			return t, true
		}
		if l != signed {
			q.taken++
		}
		delete(q.waiting, t)
		return t, true
	}
	return op.Target{}, false
}

func (q *queue) waits(t op.Target, l level) bool {
	if l == looking {
		return q.looks[t]
	}
	at, ok := q.waiting[t]
	return ok && at == l
}

// done gives a target back.
func (q *queue) done(t op.Target) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.busy, t)
	if q.closed {
		return
	}
	if l, ok := q.waiting[t]; ok {
		q.line(t, l)
	}
	if q.looks[t] {
		q.line(t, looking)
	}
}

// depth returns how many targets wait, are worked on, or are delayed.
func (q *queue) depth() (waiting, busy, delayed int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	waiting = len(q.waiting)
	for t := range q.looks {
		if _, ok := q.waiting[t]; !ok {
			waiting++
		}
	}
	return waiting, len(q.busy), len(q.delayed)
}

// close lets all workers go and stops every delay.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	for _, d := range q.delayed {
		d.stop()
	}
	clear(q.delayed)
	clear(q.waiting)
	clear(q.looks)
	q.ready.Broadcast()
}

// Back-off doubles from the first delay to the longest.
const (
	firstDelay = time.Second
	maxDelay   = 5 * time.Minute
	// maxWait is the longest delay for a step that did not begin, because its back end, the journal or the clock was
	// not there. Asking again costs little.
	maxWait = 5 * time.Second
	// calm is how long a target must rest before its count begins again.
	calm = 2 * maxDelay
)

// backoff returns how long to wait after the n-th time, n from 1. It is between half and the whole of the doubled
// delay, so that steps that failed together do not return together. random is in [0, 1).
func backoff(n int, random float64) time.Duration {
	d := maxDelay
	if n < 1 {
		n = 1
	}
	if shift := n - 1; shift < 16 && firstDelay<<shift < maxDelay {
		d = firstDelay << shift
	}
	return d/2 + time.Duration(random*float64(d/2))
}

// retry is the back-off of one target.
type retry struct {
	key   string // the work that must wait for until
	count int
	until time.Time
}

// again counts one more time and returns how long to wait.
func (r *retry) again(key string, now time.Time, random float64) time.Duration {
	if r.key != key || now.Sub(r.until) > calm {
		r.count = 0
	}
	r.key = key
	r.count++
	d := backoff(r.count, random)
	r.until = now.Add(d)
	return d
}

// left returns how long key still has to wait. If that is more than the longest delay, the clock was set back, and left
// returns 0.
func (r *retry) left(key string, now time.Time) time.Duration {
	if r == nil || r.key != key {
		return 0
	}
	if d := r.until.Sub(now); d > 0 && d <= maxDelay {
		return d
	}
	return 0
}
