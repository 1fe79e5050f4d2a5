package reconcile

import (
	"sync"
	"time"

	"gated/internal/op"
)

// queue hands targets to workers: each target once however often it was added,
// and never to two workers at a time. What is added while a worker has it is
// handed out again afterwards, so nothing is lost. What somebody waits for goes
// before what a round found, which can be very much.
type queue struct {
	now   func() time.Time
	after func(time.Duration, func()) (stop func())

	mu      sync.Mutex
	ready   sync.Cond
	order   [2][]op.Target      // by level; an entry counts only if waiting has that level
	waiting map[op.Target]level // in order, or to be put there when its worker is done
	busy    map[op.Target]bool
	delayed map[op.Target]delay
	taken   uint64
	closed  bool
}

// level is how soon a target is handed out.
type level int

const (
	urgent level = iota
	routine
)

// everyRoutine is how often a routine target goes first, so that a stream of
// urgent ones does not starve them.
const everyRoutine = 8

type delay struct {
	at   time.Time
	stop func()
}

func newQueue(now func() time.Time, after func(time.Duration, func()) func()) *queue {
	q := &queue{now: now, after: after, waiting: map[op.Target]level{}, busy: map[op.Target]bool{},
		delayed: map[op.Target]delay{}}
	q.ready.L = &q.mu
	return q
}

// add hands t out when it is its turn. It does not block.
func (q *queue) add(t op.Target) { q.put(t, routine) }

// addUrgent hands t out as soon as a worker is free. It does not block.
func (q *queue) addUrgent(t op.Target) { q.put(t, urgent) }

func (q *queue) put(t op.Target, l level) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if old, ok := q.waiting[t]; q.closed || ok && old <= l {
		return
	}
	q.waiting[t] = l
	if !q.busy[t] {
		q.order[l] = append(q.order[l], t)
		q.ready.Signal()
	}
}

// addAfter adds t when d has passed; of several delays the shortest counts.
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

// get waits for a target; false when the queue is closed. The caller calls done
// with it afterwards.
func (q *queue) get() (op.Target, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for !q.closed {
		first := urgent
		if q.taken%everyRoutine == everyRoutine-1 {
			first = routine
		}
		for _, l := range []level{first, 1 - first} {
			if t, ok := q.pop(l); ok {
				q.taken++
				q.busy[t] = true
				return t, true
			}
		}
		q.ready.Wait()
	}
	return op.Target{}, false
}

// pop takes the first target of a level that waits there.
func (q *queue) pop(l level) (op.Target, bool) {
	for len(q.order[l]) > 0 {
		t := q.order[l][0]
		q.order[l] = q.order[l][1:]
		if at, ok := q.waiting[t]; ok && at == l && !q.busy[t] {
			delete(q.waiting, t)
			return t, true
		}
	}
	return op.Target{}, false
}

// done gives a target back.
func (q *queue) done(t op.Target) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.busy, t)
	if l, ok := q.waiting[t]; ok && !q.closed {
		q.order[l] = append(q.order[l], t)
		q.ready.Signal()
	}
}

// depth returns how many targets wait, are worked on, or are delayed.
func (q *queue) depth() (waiting, busy, delayed int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting), len(q.busy), len(q.delayed)
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
	q.ready.Broadcast()
}
