package store

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
)

// The bounds of the queue and of one group. In a group of 256, the fsync costs almost nothing for each call, and no
// caller waits long behind it.
const (
	maxQueue = 1024
	maxGroup = 256
)

// The states of a call. The goroutine that moves it out of queued decides whether it runs.
const (
	queued int32 = iota
	started
	withdrawn
)

// call is one Update.
type call struct {
	fn    func(*Tx) error
	or    func(*Tx, error) error // runs instead of fn if fn failed; may be nil
	state atomic.Int32
	err   error // of fn, or of or
	done  chan error
}

// Update runs fn in a transaction of its own within the next group and returns
// after the group's COMMIT: nil means that fn's writes are on disk. An error of
// fn rolls back fn's writes alone and is returned as it is.
//
// ctx bounds the wait in the queue only. If it ends there, fn never runs and
// the error is ErrUnavailable and ctx's own; once fn has begun, Update waits
// for the truth. fn runs on the writer's goroutine, while everybody else's
// writes wait: it does no I/O of its own and never calls Update.
//
// fn may run more than once: if another call of its group fails, the group is
// rolled back and runs again. So fn assigns its results, and begins each run
// without those of the run before.
func (s *Store) Update(ctx context.Context, fn func(*Tx) error) error {
	return s.UpdateOr(ctx, fn, nil)
}

// UpdateOr is Update with a function that writes something else if fn fails. After
// an error of fn, fn's writes are rolled back and or runs with that error. UpdateOr
// returns what or returns: nil means that or's writes are on disk. After a panic of
// fn, or does not run.
func (s *Store) UpdateOr(ctx context.Context, fn func(*Tx) error, or func(*Tx, error) error) error {
	if s.writer == nil {
		return fmt.Errorf("store: %w: the store was opened read-only", ErrReadOnly)
	}
	c := &call{fn: fn, or: or, done: make(chan error, 1)}
	if err := s.writer.enqueue(ctx, c); err != nil {
		return err
	}
	select {
	case err := <-c.done:
		return err
	case <-ctx.Done():
		return c.withdraw(context.Cause(ctx))
	case <-s.writer.stopped:
		return c.withdraw(errClosed)
	}
}

var errClosed = errors.New("the store is closed")

// withdraw takes back a call that has not begun. For a call that has begun, it waits.
func (c *call) withdraw(why error) error {
	if c.state.CompareAndSwap(queued, withdrawn) {
		return unavailable(why)
	}
	return <-c.done
}

// writer is the one goroutine that writes.
type writer struct {
	store   *Store
	queue   chan *call
	closing chan struct{} // closed by Close
	stopped chan struct{} // closed when the last group is done

	careful int                   // how many groups still have savepoints from the start
	memory  *groupMemory          // of the group that is under way
	sealed  *Kept                 // the group that is under way, sealed for the Keeper; nil without one
	parted  bool                  // no group runs any more; see errParted
	stop    <-chan struct{}       // closed when nothing may wait for the Keeper any longer
	session *session              // nil after a failure that the connection may not have survived
	groups  int64                 // the group counter as last read or committed
	failed  atomic.Pointer[error] // why the last group was not kept; nil if it was
}

func (w *writer) enqueue(ctx context.Context, c *call) error {
	if err := context.Cause(ctx); err != nil {
		return unavailable(err)
	}
	select {
	case <-w.closing:
		return unavailable(errClosed)
	default:
	}
	select {
	case w.queue <- c:
		return nil
	case <-ctx.Done():
		return unavailable(context.Cause(ctx))
	case <-w.closing:
		return unavailable(errClosed)
	}
}

// run serves groups until the store closes and the queue is empty.
func (w *writer) run() {
	clean := false
	defer func() {
		if clean {
			close(w.stopped)
		} else {
			go w.run() // a function ended its goroutine; see protect
		}
	}()
	for {
		batch := w.next()
		if len(batch) == 0 {
			clean = true
			return
		}
		w.serve(batch)
	}
}

// next waits for a call and takes what else is queued, up to maxGroup. It
// returns nothing when the store is closing and the queue is empty.
func (w *writer) next() []*call {
	var batch []*call
	select {
	case c := <-w.queue:
		batch = append(batch, c)
	case <-w.closing:
	}
	for len(batch) < maxGroup {
		select {
		case c := <-w.queue:
			batch = append(batch, c)
		default:
			return batch
		}
	}
	return batch
}

// serve runs one group and answers its calls.
func (w *writer) serve(batch []*call) {
	err := errors.New("a transaction function ended its goroutine")
	defer func() {
		w.report(err)
		for _, c := range batch {
			if c.state.Load() == withdrawn {
				continue
			}
			if err != nil {
				c.done <- unavailable(err)
			} else {
				c.done <- c.err
			}
		}
	}()
	batch = claim(batch)
	if len(batch) == 0 {
		err = nil
		return
	}
	err = w.group(batch)
}

// claim marks the calls of a batch as started and drops those withdrawn.
func claim(batch []*call) []*call {
	kept := batch[:0]
	for _, c := range batch {
		if c.state.CompareAndSwap(queued, started) {
			kept = append(kept, c)
		}
	}
	return kept
}

// report logs the first of several failed groups in a row.
func (w *writer) report(err error) {
	err = w.store.plain(err)
	if err != nil && w.failed.Swap(&err) == nil {
		w.store.log.Error("a group of writes was not kept", "error", err)
	}
}

// wrote logs the end of failed groups in a row. A group without writes does not count.
func (w *writer) wrote() {
	if w.failed.Swap(nil) != nil {
		w.store.log.Info("writing works again")
	}
}

// WriteError returns why the last group of writes was not kept; nil if it was kept, or if there was none.
func (s *Store) WriteError() error {
	if s.writer == nil {
		return nil
	}
	if why := s.writer.failed.Load(); why != nil {
		return *why
	}
	return nil
}
