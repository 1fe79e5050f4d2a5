package reserve

import (
	"context"
	"fmt"
	"sync"
)

// turns lets each uid do one long search at a time, and everybody together a few,
// so that nobody has all readers and processors to itself.
type turns struct {
	slots chan struct{}

	mu  sync.Mutex
	all map[uint32]*turn
}

// turn is a uid's.
type turn struct {
	slot  chan struct{}
	users int // that have it or wait for it
}

func newTurns() *turns {
	return &turns{slots: make(chan struct{}, maxSearches), all: map[uint32]*turn{}}
}

// take waits for the caller's turn; done ends it. The error is why ctx ended.
func (t *turns) take(ctx context.Context, uid uint32) (done func(), err error) {
	mine := t.join(uid)
	for i, slot := range []chan struct{}{mine.slot, t.slots} {
		select {
		case slot <- struct{}{}:
		case <-ctx.Done():
			if i > 0 {
				<-mine.slot
			}
			t.leave(uid)
			return nil, fmt.Errorf("waiting to search: %w", context.Cause(ctx))
		}
	}
	return func() {
		<-t.slots
		<-mine.slot
		t.leave(uid)
	}, nil
}

func (t *turns) join(uid uint32) *turn {
	t.mu.Lock()
	defer t.mu.Unlock()
	mine := t.all[uid]
	if mine == nil {
		mine = &turn{slot: make(chan struct{}, 1)}
		t.all[uid] = mine
	}
	mine.users++
	return mine
}

func (t *turns) leave(uid uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.all[uid].users--; t.all[uid].users == 0 {
		delete(t.all, uid)
	}
}
