package retention

import (
	"context"
	"crypto/rand"

	"gated/internal/base/store"
	"gated/internal/log/audit"
	"gated/internal/log/journal"
)

// place checks that the directory is the one in which this gate's segment files are, and makes the first one.
func (k *Keeper) place(ctx context.Context, last audit.Segment) error {
	var a journal.Archiving
	err := k.c.Store.View(ctx, func(tx *store.Tx) (err error) {
		a, err = journal.ReadArchiving(tx)
		return err
	})
	if err != nil {
		return err
	}
	if last.Number == 0 && k.c.Named {
		if err := k.restored(ctx); err != nil {
			return err
		}
	}
	if a.Place != "" {
		return k.c.Dir.Claim(a.Place, last)
	}
	if last.Number > 0 { // of a version that did not mark its directory
		if err := k.c.Dir.Look(last); err != nil {
			return err
		}
	}
	err = k.c.Store.Update(ctx, func(tx *store.Tx) error {
		if a, err = journal.ReadArchiving(tx); err != nil {
			return err
		}
		a.Place = rand.Text()
		return journal.WriteArchiving(tx, a)
	})
	if err != nil {
		return err
	}
	return k.c.Dir.Claim(a.Place, last)
}

// restored refuses a directory without a mark if the log begins with another gate id. The gate was restored then, and its segments
// may be on a disk that is not mounted.
func (k *Keeper) restored(ctx context.Context) error {
	var first []audit.Entry
	err := k.c.Store.View(ctx, func(tx *store.Tx) (err error) {
		first, err = audit.After(tx, 0, 1)
		return err
	})
	if err != nil || len(first) == 0 || first[0].Gate == "" || first[0].Gate == k.c.Gate {
		return err
	}
	return k.c.Dir.Marked()
}
