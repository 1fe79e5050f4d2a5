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
