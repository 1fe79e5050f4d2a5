package reserve

import (
	"context"
	"database/sql"
	"errors"
	"math"
	"time"

	"gated/internal/base/store"
	"gated/internal/log/audit"
)

const sqlNextDue = `SELECT due_at FROM reservations ORDER BY due_at LIMIT 1`

// due ends what lapsed and announces what soon will. It takes at most limit reservations, the oldest first, and returns
// how many it took.
func (b *Book) due(tx *store.Tx, out *outcome, limit int) (int, error) {
	all, err := list(tx, sqlDue, out.now.UnixNano(), limit)
	if err != nil {
		return 0, err
	}
	for _, r := range all {
		if r.ExpiresAt.After(out.now) {
			if _, err := tx.Exec(sqlAnnounced, int64(r.ID)); err != nil {
				return 0, err
			}
			err = b.append(tx, entry(audit.Lapsing, theGate, r))
		} else {
			err = b.end(tx, out, r, audit.Lapsed, theGate)
		}
		if err != nil {
			return 0, err
		}
	}
	return len(all), nil
}

// nextDue returns the next time at which something is due, in nanoseconds, or 0.
func nextDue(tx *store.Tx) (at int64, err error) {
	err = tx.QueryRow(sqlNextDue).Scan(&at)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	return at, err
}

// Sweep ends all that has lapsed. The daemon calls it at its start, before it answers anything; later Run does this
// work.
func (b *Book) Sweep(ctx context.Context) error {
	for room := 0; room == 0; {
		err := b.update(ctx, func(_ *store.Tx, out *outcome) error {
			room = out.room // update handles what is due before this
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// The pauses of Run: between attempts after a failure, and the longest before it looks again. Timers stand still while
// the machine sleeps.
const (
	firstPause = 100 * time.Millisecond
	lastPause  = 10 * time.Second
	longest    = time.Minute
)

// Run announces the end of each reservation, and ends it at its time. It returns the cause of ctx when ctx ends. It
// logs failures and tries again.
func (b *Book) Run(ctx context.Context) error {
	timer := time.NewTimer(longest)
	defer timer.Stop()
	pause := firstPause
	for {
		wait, some, err := b.tend(ctx)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			wait, some = pause, true
			pause = min(2*pause, lastPause)
			b.log.Info("reservations that are due are looked at again", "in", wait)
		} else {
			pause = firstPause
		}
		timer.Stop()
		if some {
			timer.Reset(min(wait, longest))
		}
		moved := b.moved
		if err != nil {
			moved = nil // after a failure, a change does not shorten the pause
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-moved:
		case <-timer.C:
		}
	}
}

// tend does what is due. It returns the time until the next due work, and whether there is any.
func (b *Book) tend(ctx context.Context) (wait time.Duration, some bool, err error) {
	for {
		var next int64
		now := b.cfg.Now()
		b.looks.Store(math.MaxInt64) // a change that the look does not see must tell
		err := b.snapshot(ctx, func(tx *store.Tx) (err error) {
			next, err = nextDue(tx)
			return err
		})
		if err != nil || next == 0 {
			return 0, false, err
		}
		if wait := fromNano(next).Sub(now); wait > 0 {
			b.looks.Store(next)
			return wait, true, nil
		}
		if err := b.Sweep(ctx); err != nil {
			return 0, false, err
		}
	}
}

// EndMost ends the reservations that are bound to a registration, down to leave of them. It takes as many transactions
// as it needs, so that none is long. The registration is about to be forgotten: EndOf ends the rest in the transaction
// that forgets it. If at most Batch are left, these all end at one moment.
func (b *Book) EndMost(ctx context.Context, h Holder, leave int) error {
	_, err := b.batches(ctx, func(tx *store.Tx, out *outcome) ([]Reservation, error) {
		return b.endBound(tx, out, h, out.room, leave)
	})
	return err
}

// batches runs fn in one transaction after another until nothing is left. fn ends as many reservations as there is room
// for. batches returns all that ended.
func (b *Book) batches(ctx context.Context, fn func(*store.Tx, *outcome) ([]Reservation, error)) (all []Reservation, err error) {
	for range maxBatches {
		var some []Reservation
		more := false
		err := b.update(ctx, func(tx *store.Tx, out *outcome) (err error) {
			some, err = fn(tx, out)
			more = len(some) == out.room
			return err
		})
		if err != nil {
			return all, err
		}
		if all = append(all, some...); !more {
			break
		}
	}
	return all, nil
}

// endBound ends at most limit reservations that are bound to a registration, and leaves at least leave of them.
func (b *Book) endBound(tx *store.Tx, out *outcome, h Holder, limit, leave int) ([]Reservation, error) {
	if h.Registration == 0 {
		return nil, nil // a bare uid has no process whose end is known
	}
	all, err := list(tx, sqlBoundTo, h.Name, int64(h.UID), h.Member, h.Registration, limit+leave)
	if err != nil {
		return nil, err
	}
	all = all[:min(limit, max(0, len(all)-leave))]
	for _, r := range all {
		why := audit.Orphaned
		if !r.ExpiresAt.After(out.now) {
			why = audit.Lapsed
		}
		if err := b.end(tx, out, r, why, theGate); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// EndOf ends, in the caller's transaction, the reservations that are bound to a registration. The registration has
// ended, or ends in this transaction. Kept reservations stay until their time is up. The caller calls after once the
// transaction is on disk, and only then. EndMost goes before it, so that little is left here.
func (b *Book) EndOf(tx *store.Tx, h Holder) (after func(), err error) {
	out := b.outcome(b.cfg.Now())
	if _, err := b.endBound(tx, out, h, noLimit, 0); err != nil {
		return nil, err
	}
	return func() {
		b.settle(out)
		b.queue.wakeHolder(h)
	}, nil
}
