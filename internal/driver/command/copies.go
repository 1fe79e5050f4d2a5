package command

import (
	"context"
	"sync"

	"gated/internal/base/refusal"
)

// maxCopies is the most bytes of copies that all looks hold at the same time. All runs have the
// same limit of their own, so a long command does not delay a look. The largest look fits: a
// program and a probe, each with its interpreter.
const maxCopies = 4 * maxProgram

// copies counts the bytes of sealed copies that are held. A look asks once for all its copies.
// So no look holds a part while it waits for the rest.
type copies struct {
	mu      sync.Mutex
	most    int64
	held    int64
	waiting []*place // in the order of arrival
}

// place is one look or run that waits.
type place struct {
	bytes int64
	free  chan struct{} // closed when it has its bytes
}

// take waits until n bytes are free. It returns the function that gives them back. It refuses
// with Unavailable if ctx ends first, or if n is more than the limit.
func (c *copies) take(ctx context.Context, n int64) (giveBack func(), err error) {
	c.mu.Lock()
	if n > c.most {
		c.mu.Unlock()
		return nil, refusal.New(refusal.Unavailable, "its programs have %d bytes, more than %d", n, c.most)
	}
	giveBack = sync.OnceFunc(func() { c.give(n) })
	if len(c.waiting) == 0 && c.held+n <= c.most {
		c.held += n
		c.mu.Unlock()
		return giveBack, nil
	}
	p := &place{n, make(chan struct{})}
	c.waiting = append(c.waiting, p)
	c.mu.Unlock()
	select {
	case <-p.free:
		return giveBack, nil
	case <-ctx.Done():
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-p.free: // both are ready
		return giveBack, nil
	default:
	}
	for i := range c.waiting {
		if c.waiting[i] == p {
			c.waiting = append(c.waiting[:i], c.waiting[i+1:]...)
			break
		}
	}
	c.admit()
	return nil, refusal.New(refusal.Unavailable, "too many programs are looked at just now: %v", ctx.Err())
}

func (c *copies) give(n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held -= n
	c.admit()
}

// admit gives room to those that wait, in order. The caller holds the lock.
func (c *copies) admit() {
	for len(c.waiting) > 0 && c.held+c.waiting[0].bytes <= c.most {
		c.held += c.waiting[0].bytes
		close(c.waiting[0].free)
		c.waiting = c.waiting[1:]
	}
}

// weigh returns the bytes that the copies of an executable take: its own, and for a script also
// those of its interpreter.
func weigh(path string) (int64, error) {
	n, head, err := sizeOf(path)
	if err != nil {
		return 0, err
	}
	interpreter, _, why := parseInterpreter(head)
	if why != "" {
		return n, nil // an ELF program; for any other, executable says what is wrong
	}
	more, _, err := sizeOf(interpreter)
	return n + more, err
}

func sizeOf(path string) (int64, []byte, error) {
	f, _, err := openProgram(path)
	if err != nil {
		return 0, nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return 0, nil, refusal.New(refusal.Unavailable, "%s cannot be looked at: %v", path, err)
	}
	head, err := headOf(f)
	if err != nil {
		return 0, nil, refusal.New(refusal.Unavailable, "%s cannot be read: %v", path, err)
	}
	return info.Size(), head, nil
}
