package reserve

import (
	"sync"

	"gated/internal/glob"
)

// Bounds of the patterns that are kept after they were read: their number, and
// the bytes of their text, for an automaton takes some hundred bytes for each.
// Those that are reserved have a place of their own, so that what is merely asked
// about does not push them out; there is room for all of four uids.
const (
	cacheBytes    = 4 * MaxWeightPerUID
	cachePatterns = cacheBytes / weightOfPattern
	askedPatterns = 1024
	askedBytes    = 64 << 10
)

// cache keeps patterns that were read, which takes longer than to compare them.
// It forgets what was not asked for since as much again was: two generations,
// of which the older one is dropped when the younger one is full.
type cache struct {
	patterns, maxBytes int

	mu         sync.Mutex
	young, old map[reading]glob.Pattern
	bytes      int // of text, in young
}

// reading is what a pattern's meaning depends on.
type reading struct {
	text string
	fold bool
}

// newCache returns one for as many patterns, of as many bytes together.
func newCache(patterns, bytes int) *cache {
	return &cache{patterns: patterns, maxBytes: bytes, young: map[reading]glob.Pattern{}}
}

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
	if len(c.young) >= c.patterns || c.bytes+len(r.text) > c.maxBytes {
		c.old, c.young, c.bytes = c.young, map[reading]glob.Pattern{}, 0
	}
	c.young[r] = p
	c.bytes += len(r.text)
}
