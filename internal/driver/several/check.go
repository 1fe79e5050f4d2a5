package several

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"gated/internal/driver"
)

const (
	// checkLimit is how long a back end has to say how it is, and checkPatience
	// how long anybody waits for it to have ended.
	checkLimit    = 8 * time.Second
	checkPatience = 10 * time.Second
	// checkEvery is how often it is asked at most, whoever wants to know.
	checkEvery = 5 * time.Second
)

// Checker asks one back end how it is, and not too often. It is safe for
// concurrent use.
type Checker struct {
	backend driver.Backend
	base    context.Context
	limit   limit
	now     func() time.Time
	log     *slog.Logger

	mu   sync.Mutex
	last *checkup
}

// checkup is one check, under way or done.
type checkup struct {
	done  chan struct{} // closed when found is there
	began time.Time
	found []driver.Finding
}

// NewChecker returns the checker of one back end. Its checks end with ctx.
func NewChecker(ctx context.Context, b driver.Backend, now func() time.Time, log *slog.Logger) *Checker {
	return &Checker{backend: b, base: context.WithoutCancel(ctx), limit: context.WithTimeout, now: now, log: log}
}

// Check returns what the back end says of itself, and when it was asked: now, or
// a few seconds ago. A back end that does not answer, or panics, is one bad
// finding.
func (c *Checker) Check(ctx context.Context) ([]driver.Finding, time.Time) {
	k := c.current()
	waiting, stop := c.limit(ctx, max(0, checkPatience-c.now().Sub(k.began)))
	defer stop()
	select {
	case <-k.done:
		return k.found, k.began
	case <-waiting.Done():
	}
	select {
	case <-k.done: // both are
		return k.found, k.began
	default:
		return unreachable(fmt.Sprintf("it has not answered within %s", checkPatience)), k.began
	}
}

// unreachable is the one finding of a back end that says nothing of itself.
func unreachable(why string) []driver.Finding {
	return []driver.Finding{{What: "reachable", State: driver.Bad, Detail: why,
		Hint: "see whether the back end runs, and whether gated.yaml names the right place; the daemon's log says more"}}
}

// current returns the check that is under way, or one that is not old, or begins
// one.
func (c *Checker) current() *checkup {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last != nil {
		select {
		case <-c.last.done:
			if age := c.now().Sub(c.last.began); age >= 0 && age < checkEvery {
				return c.last
			}
		default:
			return c.last // also one that hangs: there is never a second beside it
		}
	}
	k := &checkup{done: make(chan struct{}), began: c.now()}
	c.last = k
	go func() {
		defer close(k.done)
		bounded, cancel := c.limit(c.base, checkLimit)
		defer cancel()
		err := driver.Safely(c.log, "a check of "+c.backend.Name(), func() error { k.found = c.backend.Check(bounded); return nil })
		if err != nil {
			k.found = unreachable("asking it failed: " + err.Error())
		}
	}()
	return k
}
