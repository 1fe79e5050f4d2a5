package reconcile

import (
	"sync"
	"time"

	"gated/internal/op"
)

// queue hands targets to workers: each target once however often it was added,
// and never to two workers at a time. What is added while a worker has it is
// handed out again afterwards, so nothing is lost. A target with a step that
// operators signed goes before all others, and has workers of its own; then what
// a caller waits for goes before what a round found, which can be very much. A
// look that steps do not wait for is a queue of its own.
type queue struct {
	now   func() time.Time
	after func(time.Duration, func()) (stop func())

	mu      sync.Mutex
	ready   sync.Cond
	order   [levels][]op.Target // an entry counts only if waiting or looks has that level
	waiting map[op.Target]level // in order, or to be put there when its worker is done
	looks   map[op.Target]bool  // the same, of targets to be looked at
	signed  map[op.Target]uint64
	marks   uint64
	busy    map[op.Target]func() // what ends a look that a signed step waits for; nil for work
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
	looking              // its requests are to be looked at again
	levels
)

// everyRoutine is how often a routine target goes first, so that a stream of
// urgent ones does not starve them.
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

// add hands t out when it is its turn. It does not block.
func (q *queue) add(t op.Target) { q.put(t, routine) }

// addUrgent hands t out as soon as a worker is free. It does not block.
func (q *queue) addUrgent(t op.Target) { q.put(t, urgent) }

// addSigned hands t out before all that is not signed, from now on until unmark.
// A look that has it is ended. It does not block.
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

// mark returns what unmark takes: 0 for a target that is not marked.
func (q *queue) mark(t op.Target) uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.signed[t]
}

// unmark ends what addSigned began, unless that was called since mark.
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

// addLook hands t out to a worker that looks. It does not block.
func (q *queue) addLook(t op.Target) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || q.looks[t] {
		return
	}
	q.looks[t] = true
	q.line(t, looking)
}

// line puts a target in order, unless a worker has it: then done does; mu is held.
func (q *queue) line(t op.Target, l level) {
	if _, ok := q.busy[t]; !ok {
		q.order[l] = append(q.order[l], t)
		q.ready.Broadcast() // it is not for every worker that waits
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

// get waits for a target to work on; false when the queue is closed. The caller
// calls done with it afterwards.
func (q *queue) get() (op.Target, bool) { return q.take(nil, signed, urgent, routine) }

// getSigned is get for a worker that is kept for what operators signed.
func (q *queue) getSigned() (op.Target, bool) { return q.take(nil, signed) }

// getLook is get for a worker that looks; end is called when a signed step of the
// target waits for it. It must not block.
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

// fairly is from, with a routine target before the urgent ones now and then.
func (q *queue) fairly(from []level) []level {
	if len(from) == int(routine)+1 && q.taken%everyRoutine == everyRoutine-1 {
		return []level{signed, routine, urgent}
	}
	return from
}

// pop takes the first target of a level that waits there.
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
