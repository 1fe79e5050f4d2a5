// Package follow reads each entry of the audit log once, in order, after its COMMIT. What counts or tells decisions
// stands on it. So nothing is told that was not kept, and no decision waits for those who hear of it.
package follow

import (
	"context"
	"log/slog"
	"time"

	"gated/internal/base/store"
	"gated/internal/log/audit"
)

// The bounds of a follower.
const (
	batch      = 256
	batchBytes = 1 << 20
	maxBehind  = 50_000 // entries; if it is further behind, it leaves the oldest out
	// pause is between two reads, so that many small commits cost few reads.
	pause = 50 * time.Millisecond
	// again is between a read that failed and the next.
	again = time.Second
)

// Follower reads the entries of a store from its making on.
type Follower struct {
	store *store.Store
	log   *slog.Logger
	each  func(*store.Tx, audit.Entry)
	more  chan struct{} // holds one
	at    int64         // the number of the newest entry that was read
	fails bool
}

// New returns a follower that begins after the newest entry. It calls each in the snapshot that has the entry, on one
// goroutine. each must not write and must not wait.
func New(ctx context.Context, s *store.Store, log *slog.Logger, each func(*store.Tx, audit.Entry)) (*Follower, error) {
	f := &Follower{store: s, log: log, each: each, more: make(chan struct{}, 1)}
	err := s.View(ctx, func(tx *store.Tx) error {
		head, err := audit.ReadHead(tx)
		f.at = head.Seq
		return err
	})
	s.OnCommit(f.committed)
	return f, err
}

func (f *Follower) committed() {
	select {
	case f.more <- struct{}{}:
	default:
	}
}

// Run follows until ctx ends.
func (f *Follower) Run(ctx context.Context) error {
	for {
		wait := pause
		if !f.Drain(ctx) {
			wait = again
			f.committed()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-f.more:
		}
		rest(ctx, wait)
	}
}

// Drain reads what is there. It reports whether it could.
func (f *Follower) Drain(ctx context.Context) bool {
	for ctx.Err() == nil {
		n, err := f.read(ctx)
		if err != nil && ctx.Err() == nil {
			if !f.fails {
				f.log.Warn("decisions are not logged and counted now, because the audit log cannot be read", "error", err)
			}
			f.fails = true
			return false
		}
		f.fails = false
		if n == 0 {
			return true
		}
	}
	return true
}

// read reads one batch, and returns how many entries it has.
func (f *Follower) read(ctx context.Context) (n int, err error) {
	return n, f.store.View(ctx, func(tx *store.Tx) error {
		head, err := audit.ReadHead(tx)
		if err != nil {
			return err
		}
		if behind := head.Seq - f.at; behind > maxBehind {
			f.log.Warn("decisions are left out of this log, because it is too far behind; gated events has them", "entries", behind-maxBehind)
			f.at = head.Seq - maxBehind
		}
		bodies, err := audit.BodiesOf(tx, f.at, batch, batchBytes)
		if err != nil {
			return err
		}
		n = len(bodies)
		for _, body := range bodies {
			f.at++
			e, err := audit.Decode(body)
			if err != nil {
				f.log.Warn("an entry of the audit log cannot be read", "entry", f.at, "error", err)
				continue
			}
			f.at = e.Seq
			f.each(tx, e)
		}
		return nil
	})
}

// rest waits, or until ctx ends.
func rest(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
