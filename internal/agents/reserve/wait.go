package reserve

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gated/internal/base/refusal"
	"gated/internal/base/store"
)

// wait puts a claim behind those that wait, and decides it again after each change that may concern it. It joins the
// queue before its first look, so it misses no change. The end of the wait does not cut off an attempt that has begun.
// If the claim's agent ended, the refusal is NotHolder.
func (b *Book) wait(ctx context.Context, w *wish, limit time.Duration) (Granted, []Conflict, error) {
	me, err := b.queue.join(w, b.cfg.Now())
	if err != nil {
		return Granted{}, nil, err
	}
	defer b.queue.leave(me)
	if err := b.arrive(ctx, me); err != nil {
		return Granted{}, nil, err
	}
	waiting, stop := context.WithTimeout(ctx, limit)
	defer stop()
	for {
		g, conflicts, err := b.attempt(ctx, w, me)
		if !errors.Is(err, refusal.Conflict) {
			return g, conflicts, err
		}
		if len(w.known.hits) > MaxConflicts {
			w.known = new(survey) // free it: many claims may wait
		}
		select {
		case <-me.woken:
		case <-waiting.Done():
			if ctx.Err() != nil {
				return Granted{}, nil, fmt.Errorf("waiting for paths: %w", context.Cause(ctx))
			}
			return Granted{}, conflicts, waited(err, limit)
		}
	}
}

const sqlNewest = `SELECT coalesce(max(id), 0) FROM reservations`

// arrive records which reservations existed when a claim began to wait.
func (b *Book) arrive(ctx context.Context, me *waiter) error {
	return b.view(ctx, func(tx *store.Tx, _ time.Time) error {
		var newest int64
		err := tx.QueryRow(sqlNewest).Scan(&newest)
		if err == nil {
			me.came.Store(newest + 1)
		}
		return err
	})
}

// waited adds to a refusal that it came after a wait.
func waited(err error, limit time.Duration) error {
	r := *refusal.As(err)
	r.Detail += fmt.Sprintf(" (after a wait of %v)", limit)
	return &r
}
