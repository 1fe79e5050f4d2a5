package reserve

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"gated/internal/audit"
	"gated/internal/store"
)

const sqlNextDue = `SELECT due_at FROM reservations ORDER BY due_at LIMIT 1`

// due ends what lapsed and announces what soon will, at most limit of it, the
// oldest first, and returns how much it was.
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

// nextDue returns when something is due, in nanoseconds, or 0.
func nextDue(tx *store.Tx) (at int64, err error) {
	err = tx.QueryRow(sqlNextDue).Scan(&at)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	return at, err
}

// Sweep ends all that has lapsed. It is for the start, before anything is
// answered; later on Run does it.
func (b *Book) Sweep(ctx context.Context) error {
	for room := 0; room == 0; {
		err := b.update(ctx, func(_ *store.Tx, out *outcome) error {
			room = out.room // what is due was seen to before this
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// The pauses of Run: between attempts after a failure, and at most before it
// looks again, because timers stand still while the machine sleeps.
const (
	firstPause = 100 * time.Millisecond
	lastPause  = 10 * time.Second
	longest    = time.Minute
)

// Run ends each reservation at its time, and announces it before. It returns
// when ctx ends, with its cause. Failures are logged and tried again.
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
			moved = nil // more haste does not help
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-moved:
		case <-timer.C:
		}
	}
}

// tend does what is due and returns how long it is until there is more, if there
// is any.
func (b *Book) tend(ctx context.Context) (wait time.Duration, some bool, err error) {
	for {
		var next int64
		now := b.cfg.Now()
		err := b.view(ctx, func(tx *store.Tx, _ time.Time) (err error) {
			next, err = nextDue(tx)
			return err
		})
		if err != nil || next == 0 {
			return 0, false, err
		}
		if wait := fromNano(next).Sub(now); wait > 0 {
			return wait, true, nil
		}
		if err := b.Sweep(ctx); err != nil {
			return 0, false, err
		}
	}
}

// EndMost ends what is bound to a registration that is about to be forgotten but
// for so many, in as many transactions as it takes, so that no one of them is
// long. EndOf, in the transaction that forgets the registration, ends those and
// what its holder got meanwhile: with Batch, all of it at one moment where it is
// no more than that.
func (b *Book) EndMost(ctx context.Context, h Holder, leave int) error {
	_, err := b.batches(ctx, func(tx *store.Tx, out *outcome) ([]Reservation, error) {
		return b.endBound(tx, out, h, out.room, leave)
	})
	return err
}

// batches runs fn, which ends as many reservations as there is room for, in one
// transaction after the other until that is all, and returns what ended.
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

// endBound ends at most limit reservations that are bound to a registration, and
// leaves at least so many.
func (b *Book) endBound(tx *store.Tx, out *outcome, h Holder, limit, leave int) ([]Reservation, error) {
	if h.Registration == 0 {
		return nil, nil // of a bare uid no end is known
	}
	all, err := list(tx, sqlBoundTo, h.Name, int64(h.UID), h.Registration, limit+leave)
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

// EndOf ends, in the caller's transaction, what is bound to a registration that
// has ended, or has ended with it. What is kept stays till its time is up. The
// caller calls after when the transaction is on disk, and only then. EndMost goes
// before it, so that this is little.
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
