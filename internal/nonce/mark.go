package nonce

import (
	"database/sql"
	"errors"
	"fmt"
	"time"

	"gated/internal/base/store"
)

// ReadMark returns the durable mark: the wall clock, in whole seconds, and the time
// since boot. If the database has no mark, ok is false.
func ReadMark(tx *store.Tx) (mark Reading, ok bool, err error) {
	var unix int64
	err = tx.QueryRow(`SELECT unix, boot, elapsed FROM time_mark`).Scan(&unix, &mark.Boot, &mark.Elapsed)
	if errors.Is(err, sql.ErrNoRows) {
		return Reading{}, false, nil
	}
	if err != nil {
		return Reading{}, false, fmt.Errorf("read the time mark: %w", err)
	}
	mark.Wall = time.Unix(unix, 0).UTC()
	return mark, true, nil
}

// SetMark replaces the mark by a reading, when a new gate id begins. The mark may go
// back.
func SetMark(tx *store.Tx, r Reading) error {
	_, err := tx.Exec(`INSERT OR REPLACE INTO time_mark(id, unix, boot, elapsed) VALUES(1, ?, ?, ?)`, r.columns()...)
	return err
}

// columns returns a mark as it is stored.
func (r Reading) columns() []any {
	if r.Blind {
		r.Boot = "" // the next start cannot continue from it
	}
	w := r.whole()
	return []any{w.Wall.Unix(), w.Boot, int64(w.Elapsed)}
}

// sameRun reports whether a reading may be of the same run of a boot as an earlier
// one.
func (r Reading) sameRun(m Reading) bool { return r.Boot == m.Boot && r.Elapsed >= m.Elapsed }

// follows reports whether a mark is later than another in whole seconds, or of the
// same second in another run.
func (r Reading) follows(m Reading) bool {
	s, was := r.Wall.Unix(), m.Wall.Unix()
	return s > was || s == was && !r.sameRun(m)
}

// Seal writes the mark, at most once a second of a boot. The store calls it once per
// group, before COMMIT, and Sealed after it.
func (c *Clock) Seal(tx *store.Tx) error {
	c.mu.Lock()
	mark := c.mark
	old := mark.Wall.IsZero() || !mark.follows(c.stored)
	if !old {
		c.sealed = mark
	}
	c.mu.Unlock()
	if old {
		return nil
	}
	_, err := tx.Exec(`INSERT INTO time_mark(id, unix, boot, elapsed) VALUES(1, ?, ?, ?)
		ON CONFLICT(id) DO UPDATE SET unix = excluded.unix, boot = excluded.boot, elapsed = excluded.elapsed
		WHERE unix < excluded.unix OR unix = excluded.unix AND (boot <> excluded.boot OR elapsed > excluded.elapsed)`, mark.columns()...)
	return err
}

// Sealed says that the group in which Seal wrote is on disk. Until then the mark
// counts as not written, because the group may be lost. The next group may delete
// nonces, and it must then have the mark that covers them.
func (c *Clock) Sealed() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sealed.follows(c.stored) {
		c.stored = c.sealed
	}
}
