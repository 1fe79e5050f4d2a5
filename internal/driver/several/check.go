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
	// checkLimit is how long a check of a back end may take. checkPatience is how long a caller
	// waits for its end.
	checkLimit    = 8 * time.Second
	checkPatience = 10 * time.Second
	// checkEvery is the shortest time between two checks of a back end.
	checkEvery = 5 * time.Second
)

// Checker checks one back end, but not too often. It is safe for concurrent use.
type Checker struct {
	backend driver.Backend
	base    context.Context
	limit   limit
	now     func() time.Time
	log     *slog.Logger

	mu   sync.Mutex
	last *checkup
}

// checkup is one check, running or done.
type checkup struct {
	done  chan struct{} // closed when found is set
	began time.Time
	found []driver.Finding
}

// NewChecker returns the checker of one back end. If ctx ends, its checks end.
func NewChecker(ctx context.Context, b driver.Backend, now func() time.Time, log *slog.Logger) *Checker {
	return &Checker{backend: b, base: context.WithoutCancel(ctx), limit: context.WithTimeout, now: now, log: log}
}

// Check returns the findings of the back end, and the time of its check: now or some seconds
// ago. If the back end does not answer or panics, there is one bad finding.
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
	case <-k.done: // both are ready
		return k.found, k.began
	default:
		return unreachable(fmt.Sprintf("it has not answered within %s", checkPatience)), k.began
	}
}

// unreachable is the only finding for a back end that does not answer.
func unreachable(why string) []driver.Finding {
	return []driver.Finding{{What: "reachable", State: driver.Bad, Detail: why,
		Hint: "see whether the back end runs, and whether gated.yaml names the right place; the daemon's log says more"}}
}

// current returns the running check, or one that is recent. Otherwise it begins one.
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
			return c.last // also a check that hangs: two checks never run at the same time
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
