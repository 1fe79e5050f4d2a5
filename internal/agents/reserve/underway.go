package reserve

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"gated/internal/base/store"
)

// underway is the transactions whose end is not known yet: they have read the clock, and the disk may not have them.
// A renewal among them was made in time, but no snapshot shows it.
type underway struct {
	mu  sync.Mutex
	all map[*writing]bool
}

// writing is one of these transactions.
type writing struct {
	began time.Time
	done  chan struct{}
}

// begin reads the clock for a transaction. It notes the transaction in the same moment: a reader whose clock is later
// finds it. A transaction that runs again keeps its first time.
func (u *underway) begin(w *writing, clock func() time.Time) time.Time {
	u.mu.Lock()
	defer u.mu.Unlock()
	now := clock()
	if !u.all[w] {
		w.began = now
		u.all[w] = true
	}
	return now
}

// end forgets a transaction, and lets go of the readers that wait for it.
func (u *underway) end(w *writing) {
	u.mu.Lock()
	delete(u.all, w)
	u.mu.Unlock()
	close(w.done)
}

// before returns the transactions that are under way and began before a time, and when the first of them began.
func (u *underway) before(now time.Time) (all []*writing, first time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for w := range u.all {
		if !w.began.Before(now) {
			continue
		}
		if all = append(all, w); len(all) == 1 || w.began.Before(first) {
			first = w.began
		}
	}
	return all, first
}

// sqlNextEnd is the first end of a reservation after one time and not after another; 0 is none.
const sqlNextEnd = `SELECT coalesce(min(expires_at), 0) FROM reservations WHERE due_at <= ?2 AND expires_at > ?1 AND expires_at <= ?2`

// lookAhead is how far beyond its time a reader asks for ends. A reader whose snapshot took longer asks once more.
const lookAhead = time.Second

var (
	errMayBeRenewed = errors.New("a reservation whose time is up may have been renewed")
	errEndedSince   = errors.New("a reservation ended between the clock and the snapshot")
)

// view runs fn on a snapshot, with the time for which the answer holds. If a reservation ended after the begin of a
// transaction that is under way, that transaction may renew it. Then view waits for the transaction, at most as long as
// the disk takes for one group of writes. It looks again if a reservation ended meanwhile.
func (b *Book) view(ctx context.Context, fn func(tx *store.Tx, now time.Time) error) error {
	for {
		now := b.cfg.Now()
		writings, first := b.underway.before(now)
		if len(writings) == 0 {
			first = now
		}
		err := b.viewAt(ctx, first, now, fn)
		if errors.Is(err, errMayBeRenewed) {
			for _, w := range writings {
				select {
				case <-w.done:
				case <-ctx.Done():
					return b.shown(fmt.Errorf("waiting for a renewal: %w", context.Cause(ctx)))
				}
			}
			// A renewal that begins from now on is of a reservation that is in force at that time.
			err = b.viewAt(ctx, now, now, fn)
		}
		if !errors.Is(err, errEndedSince) {
			return b.shown(err)
		}
	}
}

// viewAt runs fn on a snapshot, for a time before it. Transactions began at first and may renew what ended since. The
// snapshot may have transactions that began after now. What ended before them must not be shown beside what they did, so
// fn runs only if nothing ended until the snapshot.
func (b *Book) viewAt(ctx context.Context, first, now time.Time, fn func(tx *store.Tx, now time.Time) error) error {
	return b.cfg.Store.View(ctx, func(tx *store.Tx) error {
		// The question makes the snapshot, and the clock is read after it. So it asks for what ends a little later, too.
		ends, err := nextEnd(tx, first, now.Add(lookAhead))
		later := b.cfg.Now()
		if err == nil && later.After(now.Add(lookAhead)) {
			ends, err = nextEnd(tx, first, later)
		}
		switch {
		case err != nil:
			return err
		case ends == 0 || ends > later.UnixNano():
			return fn(tx, now)
		case ends <= now.UnixNano():
			return errMayBeRenewed
		}
		return errEndedSince
	})
}

// nextEnd returns the first end of a reservation after one time and not after another, in nanoseconds, or 0.
func nextEnd(tx *store.Tx, after, until time.Time) (at int64, err error) {
	err = tx.QueryRow(sqlNextEnd, after.UnixNano(), until.UnixNano()).Scan(&at)
	return at, err
}

// snapshot runs fn on a snapshot, for what does not depend on the time.
func (b *Book) snapshot(ctx context.Context, fn func(*store.Tx) error) error {
	return b.shown(b.cfg.Store.View(ctx, fn))
}
