package life

import (
	"context"
	"errors"

	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/ledger"
)

// Compacted is what a compaction came to.
type Compacted struct {
	LedgerState        // after it; Base is the one that it made, or that was there
	Dropped     uint64 // groups that the base takes the place of; 0 if it was there
}

// Compact makes all rows of this member's database the base of the ledger. The groups before it are dropped, so that the
// ledger is shorter and a new member replays less. First it replays them and compares, because a wrong row would be in each
// member's database for ever. It works beside a running daemon, on each member. Cut off at any moment, the ledger has the
// groups or the base, and it can be called again.
func Compact(ctx context.Context, o LedgerOptions) (c Compacted, err error) {
	err = withLedger(ctx, o, func(l opened) error {
		s, err := memberSettings(l.Dir, l.ID, l.engine)
		if err != nil {
			return err
		}
		var sums replayable
		image, err := imageOf(ctx, l.Store, sums.read)
		if err != nil {
			return err
		}
		others, err := sums.differ(ctx, s, o.Progress)
		if err != nil {
			return err
		}
		if len(others) > 0 {
			return refusal.New(refusal.Conflict, "the table %s has %d rows that are not those of the ledger, so they are no base, and nothing was dropped",
				others[0].table, others[0].here).WithHint("gated fsck --ledger names every table; compact on another member, and join this one again")
		}
		if _, c.Dropped, err = ledger.Compact(ctx, s, image); errors.Is(err, ledger.ErrFenced) {
			return refusal.New(refusal.Unavailable, "another member took over meanwhile, and the ledger is as it was").WithHint("say it again")
		}
		if err != nil {
			return err
		}
		c.LedgerState, err = l.state(ctx)
		return err
	})
	return c, err
}

// imageOf is all rows that travel, with the place of that moment. More, if it is not nil, reads at the same moment.
func imageOf(ctx context.Context, s *store.Store, more func(*store.Tx) error) (image store.Kept, err error) {
	err = s.View(ctx, func(tx *store.Tx) (err error) {
		if image, err = tx.Image(ledger.LocalNames(), ledger.MaxRows); err != nil || more == nil {
			return err
		}
		return more(tx)
	})
	switch {
	case errors.Is(err, store.ErrTooLarge):
		err = refusal.New(refusal.Unavailable, "this gate has more than %d MiB of rows, and a base has no more", ledger.MaxRows>>20).
			WithHint("the ledger goes on as it is, and grows")
	case err == nil && image.Number == 0:
		err = refusal.New(refusal.Conflict, "this gate is in no ledger yet").WithHint("gated member migrate --to postgres begins one")
	}
	return image, err
}
