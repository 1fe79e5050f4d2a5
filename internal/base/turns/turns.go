// Package turns lets a number of callers work at once, and fewer of one uid; the others wait. Long work must not take
// readers, processors and memory from decisions, which need no turn.
package turns

import (
	"context"
	"sync"
)

// Turns is safe for concurrent use.
type Turns struct {
	all    chan struct{}
	perUID int

	mu  sync.Mutex
	uid map[uint32]*lane
}

// lane is the turns of one uid, and how many callers have one or wait.
type lane struct {
	turns chan struct{}
	users int
}

// New returns a number of turns in all, with perUID of them for one uid.
func New(all, perUID int) *Turns {
	return &Turns{all: make(chan struct{}, all), perUID: perUID, uid: map[uint32]*lane{}}
}

// Take waits for a turn and returns a function that ends it. The uid's own bound comes first, so that no uid has more
// callers in the common queue than turns. The error is the cause of ctx.
func (t *Turns) Take(ctx context.Context, uid uint32) (end func(), err error) {
	l := t.join(uid)
	select {
	case l.turns <- struct{}{}:
	case <-ctx.Done():
		t.leave(uid)
		return nil, context.Cause(ctx)
	}
	select {
	case t.all <- struct{}{}:
	case <-ctx.Done():
		<-l.turns
		t.leave(uid)
		return nil, context.Cause(ctx)
	}
	return func() {
		<-t.all
		<-l.turns
		t.leave(uid)
	}, nil
}

func (t *Turns) join(uid uint32) *lane {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.uid[uid]
	if l == nil {
		l = &lane{turns: make(chan struct{}, t.perUID)}
		t.uid[uid] = l
	}
	l.users++
	return l
}

func (t *Turns) leave(uid uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.uid[uid].users--; t.uid[uid].users == 0 {
		delete(t.uid, uid)
	}
}

// Room has bytes that callers take for a time: so many in all, and fewer for one uid. Callers without room wait. It is
// safe for concurrent use.
type Room struct {
	all, perUID int64

	mu      sync.Mutex
	used    int64
	by      map[uint32]int64
	waiting []*place // in the order of arrival
}

// place is one caller that waits.
type place struct {
	uid   uint32
	bytes int64
	taken chan struct{} // closed when the caller has its bytes
}

// NewRoom returns room for all bytes in total, and for perUID bytes of one uid.
func NewRoom(all, perUID int64) *Room {
	return &Room{all: all, perUID: perUID, by: map[uint32]int64{}}
}

// Take waits for room for n bytes, and returns a function that gives it back. n must be at most perUID. Callers of one
// uid are served in order. No caller waits for those of another uid that has its part. The error is the cause of ctx.
func (r *Room) Take(ctx context.Context, uid uint32, n int64) (giveBack func(), err error) {
	n = min(n, r.perUID)
	p := &place{uid: uid, bytes: n, taken: make(chan struct{})}
	r.mu.Lock()
	r.waiting = append(r.waiting, p)
	r.admit()
	r.mu.Unlock()
	giveBack = sync.OnceFunc(func() { r.give(uid, n) })
	select {
	case <-p.taken:
		return giveBack, nil
	case <-ctx.Done():
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-p.taken: // both channels are ready
		return giveBack, nil
	default:
	}
	for i := range r.waiting {
		if r.waiting[i] == p {
			r.waiting = append(r.waiting[:i], r.waiting[i+1:]...)
			break
		}
	}
	r.admit()
	return nil, context.Cause(ctx)
}

// Waiting returns how many wait.
func (r *Room) Waiting() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.waiting)
}

func (r *Room) give(uid uint32, n int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.used -= n
	if r.by[uid] -= n; r.by[uid] == 0 {
		delete(r.by, uid)
	}
	r.admit()
}

// admit lets callers in, in order. The caller holds mu. If the first of them has no room, later ones do not get the
// rest, or a large one would wait for ever.
func (r *Room) admit() {
	var left []*place
	full, behind := false, map[uint32]bool{}
	for _, p := range r.waiting {
		switch {
		case full || behind[p.uid]:
		case r.by[p.uid]+p.bytes > r.perUID:
			behind[p.uid] = true
		case r.used+p.bytes > r.all:
			full = true
		default:
			r.used += p.bytes
			r.by[p.uid] += p.bytes
			close(p.taken)
			continue
		}
		left = append(left, p)
	}
	r.waiting = left
}
