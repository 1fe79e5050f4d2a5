package reserve

import (
	"sync"

	"gated/internal/agents/glob"
)

// cacheBytes is the most that the kept patterns may weigh: all that four uids may reserve. The patterns of mere
// questions are not kept, because they would push others out.
const cacheBytes = 4 * MaxWeightPerUID

// cache keeps the patterns of reservations, because to read one takes longer than
// to compare two. It begins anew when it is full.
type cache struct {
	mu     sync.Mutex
	known  map[reading]glob.Pattern
	weight int
}

// reading has everything that a pattern's meaning depends on.
type reading struct {
	text string
	fold bool
}

func newCache() *cache { return &cache{known: map[reading]glob.Pattern{}} }

// read returns the pattern of a reservation. It is TooComplex if the pattern must be read and that is more work than is
// left.
func (c *cache) read(r reading, left *int64) (glob.Pattern, error) {
	c.mu.Lock()
	p, known := c.known[r]
	c.mu.Unlock()
	if known {
		return p, nil
	}
	if *left -= workOfParse * int64(len(r.text)); *left < 0 {
		return p, tooComplex(r.text)
	}
	p, err := glob.Parse(r.text, glob.Options{FoldCase: r.fold})
	if err != nil {
		return p, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.weight += weight(r.text); c.weight > cacheBytes {
		c.known, c.weight = map[reading]glob.Pattern{}, weight(r.text)
	}
	c.known[r] = p
	return p, nil
}
