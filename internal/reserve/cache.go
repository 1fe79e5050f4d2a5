package reserve

import (
	"sync"

	"gated/internal/glob"
)

// Bounds of the patterns that are kept after they were read: their number, and
// the bytes of their text, for an automaton takes some hundred bytes for each.
const (
	cachePatterns = 4096
	cacheBytes    = 128 << 10
)

// cache keeps patterns that were read, which takes longer than to compare them.
// It forgets what was not asked for since as much again was: two generations,
// of which the older one is dropped when the younger one is full.
type cache struct {
	mu         sync.Mutex
	young, old map[reading]glob.Pattern
	bytes      int // of text, in young
}

// reading is what a pattern's meaning depends on.
type reading struct {
	text string
	fold bool
}

func newCache() *cache { return &cache{young: map[reading]glob.Pattern{}} }

// parse is glob.Parse. Absolute patterns are read each time, as their meaning
// depends on the scope too.
func (c *cache) parse(text string, o glob.Options) (glob.Pattern, error) {
	if p, known := c.find(reading{text, o.FoldCase}); known {
		return p, nil
	}
	p, err := glob.Parse(text, o)
	if err == nil && text[0] != '/' {
		c.keep(reading{text, o.FoldCase}, p)
	}
	return p, err
}

// has reports whether a pattern need not be read again.
func (c *cache) has(r reading) bool {
	_, known := c.find(r)
	return known
}

func (c *cache) find(r reading) (glob.Pattern, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p, known := c.young[r]
	if known {
		return p, true
	}
	if p, known = c.old[r]; known {
		c.enter(r, p)
	}
	return p, known
}

func (c *cache) keep(r reading, p glob.Pattern) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.enter(r, p)
}

func (c *cache) enter(r reading, p glob.Pattern) {
	if _, known := c.young[r]; known {
		return
	}
	if len(c.young) >= cachePatterns || c.bytes+len(r.text) > cacheBytes {
		c.old, c.young, c.bytes = c.young, map[reading]glob.Pattern{}, 0
	}
	c.young[r] = p
	c.bytes += len(r.text)
}
