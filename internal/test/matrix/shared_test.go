package matrix_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// common is a kind of world that rows share which leave it as they found it.
// Each is held to that, and the last word, that signed work goes on, is spoken
// once for all of them. A row has a world to itself while it runs.
type common struct {
	prepare func(w *world)

	mu   sync.Mutex
	free []*world
}

// Worlds that are shared.
var (
	anyGuests = &common{prepare: func(*world) {}}
	anyKeys   = &common{prepare: func(w *world) { w.list(keyLines(w)...) }}
	withCA    = &common{prepare: func(w *world) { w.list(netCA(w)) }}
)

// on has a row share a world.
func (a attack) on(c *common) attack {
	a.shared = c
	return a
}

// take returns a free world, or makes one that is there until owner ends.
func (c *common) take(owner, t *testing.T) *world {
	c.mu.Lock()
	defer c.mu.Unlock()
	var w *world
	if n := len(c.free); n > 0 {
		w, c.free = c.free[n-1], c.free[:n-1]
		w.t = t
	} else {
		w = c.build(owner, t)
	}
	w.before, w.allow = nil, expectations{}
	w.pass(time.Minute) // a flood of refusals is counted by the minute
	t.Cleanup(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if !t.Failed() {
			c.free = append(c.free, w)
		}
	})
	return w
}

func (c *common) build(owner, t *testing.T) *world {
	w := bareWorldIn(owner, t)
	w.makeGuests()
	c.prepare(w)
	owner.Cleanup(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.free = nil
		w.t, w.ctx = owner, context.Background()
		if owner.Failed() {
			return
		}
		w.allow = expectations{}
		w.arm()
		w.conclude()
		w.sound()
		require.NotNil(owner, w.store)
	})
	return w
}
