package several

import (
	"context"
	"errors"
	"sync"
	"time"

	"gated/internal/op"
)

const (
	// listPatience and lookPatience are how long everybody waits for a back end
	// that answered last time.
	listPatience = 20 * time.Second
	lookPatience = 10 * time.Second
	// brief is how long the one waits who tries whether a back end is back that
	// did not answer in time; the others do not wait at all.
	brief = 300 * time.Millisecond
	// trial is how long such a try may take in all: a back end may be slow the
	// first time, and quick when it has remembered what it saw.
	trial = 2 * time.Minute
	// maxUnderWay bounds the looks of one sort that are under way at a back end.
	maxUnderWay = 64
	// maxStuck bounds those that never came back before it is given up.
	maxStuck = 4
)

// lane is one sort of look at one back end. A back end that hangs costs whoever
// meets it first its patience, and everybody after that next to nothing.
type lane struct {
	base     context.Context // of tries that nobody waits for to their end
	limit    limit
	now      func() time.Time
	patience time.Duration

	running  sync.WaitGroup // the looks, also those that nobody waits for
	mu       sync.Mutex
	underWay int
	late     bool      // the last one that ended, or was given up, did not answer in time
	since    time.Time // when that began
	tried    time.Time // when the last try began
}

// tooLate says that a back end hangs.
func tooLate(d time.Duration) error {
	return op.Refuse(op.Unavailable, "it has not answered within %s", d)
}

// enter begins a look. try is set where the back end did not answer in time
// before.
func (l *lane) enter() (try bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	switch {
	case l.late && l.underWay >= maxStuck:
		return false, op.Refuse(op.Unavailable, "it does not answer, and %d looks at it never came back", l.underWay)
	case l.late && l.underWay > 0 && now.Sub(l.tried) < trial:
		return false, tooLate(l.patience)
	case l.underWay >= maxUnderWay:
		return false, op.Refuse(op.Unavailable, "it has %d looks to answer already", l.underWay)
	}
	l.underWay++
	if l.late {
		l.tried = now
	}
	return l.late, nil
}

// leave ends a look that came back, in time or not.
func (l *lane) leave(inTime bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.underWay--
	if inTime {
		l.late = false
	}
}

// giveUp takes note that a look did not come back in time.
func (l *lane) giveUp() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.late {
		l.since = l.now()
		l.tried = l.since
	}
	l.late = true
}

// hangs reports whether the back end did not answer in time, and since when.
func (l *lane) hangs() (since time.Time, late bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.since, l.late
}

// ask runs a look, and waits for it for as long as the lane says. The error is
// the look's, Unavailable where it did not come back in time, or why ctx ended.
func ask[T any](ctx context.Context, l *lane, look func(context.Context) (T, error)) (T, error) {
	var none T
	try, err := l.enter()
	if err != nil {
		return none, err
	}
	// What is tried goes on when nobody waits for it any more.
	parent, may, wait := ctx, l.patience, l.patience
	if try {
		parent, may, wait = l.base, trial, brief
	}
	bounded, cancel := l.limit(parent, may)
	waiting, stopWaiting := l.limit(ctx, wait)
	defer stopWaiting()
	type found struct {
		what   T
		err    error
		inTime bool
	}
	ready := make(chan found, 1)
	l.running.Add(1)
	go func() {
		defer l.running.Done()
		defer cancel()
		what, err := look(bounded)
		f := found{what, err, bounded.Err() == nil}
		l.leave(f.inTime)
		ready <- f
	}()
	select {
	case f := <-ready:
		if f.err != nil && !f.inTime && ctx.Err() == nil {
			l.giveUp()
			if errors.Is(f.err, context.DeadlineExceeded) || errors.Is(f.err, context.Canceled) {
				return none, tooLate(l.patience)
			}
			return none, f.err // why it could not be asked says more than how long that took
		}
		return f.what, f.err
	case <-waiting.Done():
	}
	if ctx.Err() != nil {
		return none, ctx.Err()
	}
	l.giveUp()
	return none, tooLate(l.patience)
}
