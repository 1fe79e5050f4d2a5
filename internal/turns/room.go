package turns

import (
	"context"
	"sync"
)

// Room lets so many bytes be taken at once, and by one uid fewer; the others wait.
// It is safe for concurrent use.
type Room struct {
	all, perUID int64

	mu      sync.Mutex
	used    int64
	by      map[uint32]int64
	waiting []*place // in the order in which they came
}

// place is one who waits.
type place struct {
	uid   uint32
	bytes int64
	taken chan struct{} // closed when the bytes are theirs
}

// NewRoom returns room for all bytes at once, and perUID of one uid.
func NewRoom(all, perUID int64) *Room {
	return &Room{all: all, perUID: perUID, by: map[uint32]int64{}}
}

// Take waits for room for n bytes, of which there are no more than a uid may have,
// and returns what gives it back. Of one uid the first comes first; nobody waits
// for those of another uid that has its part. The error is why ctx ended.
func (r *Room) Take(ctx context.Context, uid uint32, n int64) (giveBack func(), err error) {
	n = min(n, r.perUID)
	p := &place{uid: uid, bytes: n, taken: make(chan struct{})}
	r.mu.Lock()
	r.waiting = append(r.waiting, p)
	r.admit()
	r.mu.Unlock()
	giveBack = sync.OnceFunc(func() { r.give(uid, n) })
	select {
	case <-p.taken:
		return giveBack, nil
	case <-ctx.Done():
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-p.taken: // both are
		return giveBack, nil
	default:
	}
	for i := range r.waiting {
		if r.waiting[i] == p {
			r.waiting = append(r.waiting[:i], r.waiting[i+1:]...)
			break
		}
	}
	r.admit()
	return nil, context.Cause(ctx)
}

// Waiting returns how many wait.
func (r *Room) Waiting() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.waiting)
}

func (r *Room) give(uid uint32, n int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.used -= n
	if r.by[uid] -= n; r.by[uid] == 0 {
		delete(r.by, uid)
	}
	r.admit()
}

// admit lets in those who wait, in order; mu is held. Once there is no room for
// one at all, nobody who came later gets what is left, or a large one would wait
// for ever.
func (r *Room) admit() {
	var left []*place
	full, behind := false, map[uint32]bool{}
	for _, p := range r.waiting {
		switch {
		case full || behind[p.uid]:
		case r.by[p.uid]+p.bytes > r.perUID:
			behind[p.uid] = true
		case r.used+p.bytes > r.all:
			full = true
		default:
			r.used += p.bytes
			r.by[p.uid] += p.bytes
			close(p.taken)
			continue
		}
		left = append(left, p)
	}
	r.waiting = left
}
