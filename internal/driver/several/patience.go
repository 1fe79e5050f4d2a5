package several

import (
	"context"
	"errors"
	"sync"
	"time"

	"gated/internal/base/refusal"
)

const (
	// listPatience and lookPatience are how long a caller waits for a back end that answered
	// the last time.
	listPatience = 20 * time.Second
	lookPatience = 10 * time.Second
	// brief is how long a caller waits for a try. A try asks a back end again that did not
	// answer in time. Other callers do not wait at all then.
	brief = 300 * time.Millisecond
	// trial is how long a try may take in all. A back end may be slow the first time, and fast
	// when it remembers what it saw.
	trial = 2 * time.Minute
	// maxUnderWay is the most looks of one kind that may run at a back end at once.
	maxUnderWay = 64
	// maxStuck is the most looks that may hang before the lane starts no more.
	maxStuck = 4
)

// lane is one kind of look at one back end. If the back end hangs, the first caller waits for
// the whole patience. Later callers wait almost no time.
type lane struct {
	base     context.Context // of tries that go on after their caller left
	limit    limit
	now      func() time.Time
	patience time.Duration

	running  sync.WaitGroup // the looks, also those whose caller left
	mu       sync.Mutex
	underWay int
	late     bool      // the last look that ended or was given up did not answer in time
	since    time.Time // when that began
	tried    time.Time // when the last try began
}

// tooLate is the error for a back end that hangs.
func tooLate(d time.Duration) error {
	return refusal.New(refusal.Unavailable, "it has not answered within %s", d)
}

// enter begins a look. If the back end did not answer in time before, try is true.
func (l *lane) enter() (try bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	switch {
	case l.late && l.underWay >= maxStuck:
		return false, refusal.New(refusal.Unavailable, "it does not answer, and %d looks at it never came back", l.underWay)
	case l.late && l.underWay > 0 && now.Sub(l.tried) < trial:
		return false, tooLate(l.patience)
	case l.underWay >= maxUnderWay:
		return false, refusal.New(refusal.Unavailable, "it has %d looks to answer already", l.underWay)
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

// giveUp records that a look did not come back in time.
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

// ask runs a look and waits for it as long as the lane allows. Its error is the look's,
// Unavailable if the look did not come back in time, or the reason why ctx ended.
func ask[T any](ctx context.Context, l *lane, look func(context.Context) (T, error)) (T, error) {
	var none T
	try, err := l.enter()
	if err != nil {
		return none, err
	}
	// A try goes on after its caller has left.
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
			return none, f.err // this error says more than how long the look took
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
