package server

import (
	"context"
	"sync"

	"gated/internal/op"
)

// turns lets so many calls through at once, and of one uid fewer. The others
// wait, within their deadline: lists must not take the store's readers, the
// machine and its memory from decisions, which need no turn.
type turns struct {
	all    chan struct{}
	perUID int

	mu  sync.Mutex
	uid map[uint32]*lane
}

// lane is the turns of one uid, and how many calls have them or wait.
type lane struct {
	turns chan struct{}
	calls int
}

func newTurns(all, perUID int) *turns {
	return &turns{all: make(chan struct{}, all), perUID: perUID, uid: map[uint32]*lane{}}
}

// take waits for a turn and returns how to end it. The uid's own bound comes
// first, so that no uid has more calls in the common queue than it has turns.
func (t *turns) take(ctx context.Context, uid uint32) (end func(), err error) {
	l := t.join(uid)
	select {
	case l.turns <- struct{}{}:
	case <-ctx.Done():
		t.leave(uid)
		return nil, noTurn()
	}
	select {
	case t.all <- struct{}{}:
	case <-ctx.Done():
		<-l.turns
		t.leave(uid)
		return nil, noTurn()
	}
	return func() {
		<-t.all
		<-l.turns
		t.leave(uid)
	}, nil
}

func noTurn() error {
	return op.Refuse(op.OverLimit, "too many lists at once").WithHint("end some, or try again later")
}

func (t *turns) join(uid uint32) *lane {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.uid[uid]
	if l == nil {
		l = &lane{turns: make(chan struct{}, t.perUID)}
		t.uid[uid] = l
	}
	l.calls++
	return l
}

func (t *turns) leave(uid uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.uid[uid].calls--; t.uid[uid].calls == 0 {
		delete(t.uid, uid)
	}
}

// inTurn is for end points that read much.
func (s *Server) inTurn(answerTo func(*call) (answer, error)) func(*call) (answer, error) {
	return func(c *call) (answer, error) {
		end, err := s.turns.take(c.ctx, c.by.UID)
		if err != nil {
			return answer{}, ownRefusal(err)
		}
		defer end()
		return answerTo(c)
	}
}
