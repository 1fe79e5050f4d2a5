package gateworld

import (
	"sync"
	"time"

	"gated/internal/nonce"
)

// Clock is a clock that the test moves. It starts at noon.
type Clock struct {
	mu     sync.Mutex
	passed time.Duration // since the test began
	ahead  time.Duration // of the wall clock, by what the test set
}

// Read is both clocks at once.
func (c *Clock) Read() nonce.Reading {
	c.mu.Lock()
	defer c.mu.Unlock()
	return nonce.Reading{Wall: Noon.Add(c.passed + c.ahead), Elapsed: c.passed}
}

// Now is the wall clock.
func (c *Clock) Now() time.Time { return c.Read().Wall }

// Pass lets time pass on both clocks.
func (c *Clock) Pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.passed += d
}

// Set moves the wall clock alone.
func (c *Clock) Set(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ahead += d
}
