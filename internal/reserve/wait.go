package reserve

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gated/internal/op"
	"gated/internal/store"
)

// wait puts a claim behind those that wait and decides it again whenever
// something changed that it may wait for. It is in the queue before it looks, so
// it misses nothing. An attempt that has begun is not cut off by the end of the
// wait. A claim whose agent ended is refused, as NotHolder.
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
		if !errors.Is(err, op.Conflict) {
			return g, conflicts, err
		}
		if len(w.known.hits) > MaxConflicts {
			w.known = new(survey) // many claims may wait, for much
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

// arrive records which reservations there were when a claim began to wait.
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

// waited says of a refusal that it came after a wait.
func waited(err error, limit time.Duration) error {
	r := *op.AsRefusal(err)
	r.Detail += fmt.Sprintf(" (after a wait of %v)", limit)
	return &r
}
