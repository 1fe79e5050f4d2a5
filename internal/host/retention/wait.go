package retention

import (
	"context"
	"fmt"
	"time"

	"gated/internal/base/store"
	"gated/internal/log/journal"
	"gated/internal/nonce"
)

// awayFor is how far the clock may go on while no gate runs without a wait, and how long a wait is, by the time since boot. A clock
// that is wrong after a boot looks like a long time away.
const awayFor = 24 * time.Hour

// mostAway bounds what is remembered of the time away, in which a clock may say anything.
const mostAway = 100 * 365 * 24 * time.Hour

// writes is how often, at most, the time that the gate ran is written.
const writes = time.Minute

// CameAt is Came for a gate that begins by a wall clock: at a start, after a restore or with a new time. It is called before the time
// mark moves, because the next start would take that time for none.
func CameAt(tx *store.Tx, wall time.Time) error {
	mark, known, err := nonce.ReadMark(tx)
	if err != nil || !known {
		return err
	}
	return Came(tx, wall.Sub(mark.Wall))
}

// Came records how far the clock went on while the gate did not run.
func Came(tx *store.Tx, away time.Duration) error {
	if away <= 0 {
		return nil
	}
	a, err := journal.ReadArchiving(tx)
	if err != nil {
		return err
	}
	a.Away = min(a.Away+min(away, mostAway), mostAway)
	if away > awayFor {
		a.Ran = 0
	}
	return journal.WriteArchiving(tx, a)
}

// away returns why archiving waits after a time away, "" if it does not. The wait is in the database, so a start does not end it.
func (k *Keeper) away(ctx context.Context) (string, error) {
	up := k.c.Up()
	ran := up - k.up
	if !k.known || ran >= writes {
		err := k.c.Store.Update(ctx, func(tx *store.Tx) error {
			a, err := journal.ReadArchiving(tx)
			if err != nil {
				return err
			}
			if a.Ran += ran; a.Ran >= awayFor {
				a.Away, a.Ran = 0, 0
			}
			k.waits = a
			return journal.WriteArchiving(tx, a)
		})
		if err != nil {
			k.known = false
			return "", err
		}
		k.known, k.up = true, up
	}
	if k.waits.Away <= awayFor {
		return "", nil
	}
	return fmt.Sprintf("by its clock the gate did not run for %s in all, of late; archiving waits until it ran for a day, because the clock may be wrong; it ran for %s",
		k.waits.Away.Round(time.Hour), k.waits.Ran.Round(time.Minute)), nil
}
