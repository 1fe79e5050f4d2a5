package life

import (
	"time"

	"gated/internal/base/store"
	"gated/internal/nonce"
)

// RestoredClock is a backup's time that contradicts this machine's, which is in
// force after the restore all the same: a new gate id begins with it.
type RestoredClock struct {
	Mark time.Time // the latest time that the backup's gate believed, in whole seconds
	Now  time.Time // this machine's, at the restore
}

// Behind reports whether this machine's clock is behind the backup's, which a
// clock that goes right is not.
func (c RestoredClock) Behind() bool { return c.Now.Before(c.Mark) }

// restoredClock compares a backup's mark with the wall clock as a start does,
// before the mark is replaced.
func restoredClock(tx *store.Tx, now time.Time) (*RestoredClock, error) {
	mark, ok, err := nonce.ReadMark(tx)
	if err != nil || !ok {
		return nil, err
	}
	if !now.Before(mark.Wall.Add(-nonce.MaxBehind)) && !now.After(mark.Wall.Add(nonce.MaxAway)) {
		return nil, nil
	}
	return &RestoredClock{Mark: mark.Wall, Now: now.UTC().Truncate(time.Second)}, nil
}
