package reserve

import (
	"sync"

	"gated/internal/glob"
)

// cacheBytes is what the patterns may weigh that are kept after they were read:
// there is room for all that four uids may reserve. What is merely asked about is
// not kept, so that it pushes nothing out.
const cacheBytes = 4 * MaxWeightPerUID

// cache keeps the patterns of reservations, because to read one takes longer than
// to compare two. It begins anew when it is full.
type cache struct {
	mu     sync.Mutex
	known  map[reading]glob.Pattern
	weight int
}

// reading is what a pattern's meaning depends on.
type reading struct {
	text string
	fold bool
}

func newCache() *cache { return &cache{known: map[reading]glob.Pattern{}} }

// read returns the pattern of a reservation; TooComplex if it has to be read and
// that is more work than is left.
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
