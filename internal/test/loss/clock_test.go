package loss

import (
	"slices"
	"strconv"
	"sync"
	"time"

	"gated/internal/nonce"
)

// epoch is when every sequence begins.
var epoch = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// clock is the time of a machine: what truly passed, what the wall clock shows,
// and what waits for time to pass.
type clock struct {
	mu     sync.Mutex
	passed time.Duration // since epoch, in truth
	ahead  time.Duration // of the wall clock
	booted time.Duration // when the machine booted last, in passed
	boots  int
	timers []*timer
	were   []time.Duration // settings of ahead, the latest last
	fooled time.Duration   // by how much a clock that was ahead was taken for right after boots
	held   time.Duration   // the same of one that was behind
}

type timer struct {
	at   time.Duration
	f    func()
	gone bool
}

// truth is what time it is, whatever clocks say.
func (c *clock) truth() time.Time { c.mu.Lock(); defer c.mu.Unlock(); return epoch.Add(c.passed) }

// wall is what the wall clock shows.
func (c *clock) wall() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return epoch.Add(c.passed + c.ahead)
}

// read is both clocks, as the gate reads them.
func (c *clock) read() nonce.Reading {
	c.mu.Lock()
	defer c.mu.Unlock()
	return nonce.Reading{Wall: epoch.Add(c.passed + c.ahead), Elapsed: c.passed - c.booted + time.Minute,
		Boot: "boot-" + strconv.Itoa(c.boots)}
}

// after runs f when d has passed, in the goroutine that lets time pass.
func (c *clock) after(d time.Duration, f func()) (stop func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := &timer{at: c.passed + d, f: f}
	c.timers = append(c.timers, t)
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		t.gone = true
	}
}

// due takes out the timers whose time has come, in order.
func (c *clock) due() []func() {
	c.mu.Lock()
	defer c.mu.Unlock()
	var now []*timer
	c.timers = slices.DeleteFunc(c.timers, func(t *timer) bool {
		if !t.gone && t.at <= c.passed {
			now = append(now, t)
		}
		return t.gone || t.at <= c.passed
	})
	slices.SortStableFunc(now, func(a, b *timer) int { return int(a.at - b.at) })
	fs := make([]func(), len(now))
	for i, t := range now {
		fs[i] = t.f
	}
	return fs
}

// pass lets time pass.
func (c *clock) pass(d time.Duration) { c.mu.Lock(); defer c.mu.Unlock(); c.passed += d }

// step sets the wall clock by so much.
func (c *clock) step(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ahead += d
	c.were = append(c.were, c.ahead)
}

// set sets the wall clock to what it was set to before its last steps, and right
// where it was not set that often.
func (c *clock) set(back int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ahead = 0
	if back > 0 && back <= len(c.were) {
		c.ahead = c.were[len(c.were)-back]
	}
}

// drop forgets all timers, as the end of a process does.
func (c *clock) drop() { c.mu.Lock(); defer c.mu.Unlock(); c.timers = nil }

// reboot counts the time since boot from now on.
func (c *clock) reboot() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.boots++
	c.booted = c.passed
	c.fooled += max(c.ahead, 0) // right after a boot, nothing shows that the clock is wrong
	c.held += max(-c.ahead, 0)
}

// usual is what the gate lets the wall clock be set by without an operator's word, in
// two days, each of which may have an hour.
const usual = 2 * time.Hour

// early is how far the gate's time may be ahead of the truth while it is believed, and
// late how far it may be behind.
func (c *clock) early() time.Duration { c.mu.Lock(); defer c.mu.Unlock(); return usual + c.fooled }
func (c *clock) late() time.Duration  { c.mu.Lock(); defer c.mu.Unlock(); return usual + c.held }
