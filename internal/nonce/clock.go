package nonce

import (
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"gated/internal/store"
)

// Reading is one look at both clocks of a host: the wall clock, which somebody
// may set, and the time since boot, which goes on during suspend.
type Reading struct {
	Wall    time.Time
	Elapsed time.Duration
}

// System reads the kernel's CLOCK_REALTIME and CLOCK_BOOTTIME.
func System() Reading {
	var ts unix.Timespec
	r := Reading{Wall: time.Now().UTC()}
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts) == nil {
		r.Elapsed = time.Duration(ts.Nano())
	}
	return r
}

// What the clock accepts without an operator.
const (
	// MaxBehind is how far the wall clock may be behind the mark.
	MaxBehind = 60 * time.Second
	// MaxJump is how far the wall clock may move against the time since boot.
	MaxJump = time.Hour
	// MaxAway is how far ahead of the mark the wall clock may be at start.
	MaxAway = 30 * 24 * time.Hour
)

// Clock is the gate's time: never behind its durable mark, and not carried
// away by a wall clock that jumps. While the wall clock is not believed, Now is
// the best that is known and signed work waits.
type Clock struct {
	read func() Reading

	mu       sync.Mutex
	mark     time.Time // the latest time that was believed
	shown    time.Time // the latest time that Now returned
	stored   int64     // the mark in the database, Unix seconds
	sealed   int64     // the mark that the group under way writes
	anchor   Reading   // the last reading that was believed
	anchored bool
	start    Reading
}

// Moment is one look at the gate's time.
type Moment struct {
	Now     time.Time
	Trusted bool
	Why     string // if not trusted, a sentence
}

// LoadClock returns a clock that starts from the mark in the database.
func LoadClock(tx *store.Tx, read func() Reading) (*Clock, error) {
	c := &Clock{read: read, start: read()}
	err := tx.QueryRow(`SELECT unix FROM time_mark`).Scan(&c.stored)
	if errors.Is(err, sql.ErrNoRows) {
		return c, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the time mark: %w", err)
	}
	c.mark = time.Unix(c.stored, 0).UTC()
	return c, nil
}

// Now looks at the clocks. A believed wall clock moves the mark.
func (c *Clock) Now() Moment {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.read()
	why := c.doubt(r)
	if why != "" {
		return Moment{Now: c.show(c.guess(r)), Why: why}
	}
	c.anchor, c.anchored = r, true
	if r.Wall.After(c.mark) {
		c.mark = r.Wall
	}
	return Moment{Now: c.show(c.mark), Trusted: true}
}

// show keeps what Now returns from going back: a guess that went by the time
// since boot may be ahead of the wall clock that is believed next.
func (c *Clock) show(t time.Time) time.Time {
	if t.After(c.shown) {
		c.shown = t
	}
	return c.shown
}

// doubt returns why the wall clock is not believed, or "".
func (c *Clock) doubt(r Reading) string {
	if !c.mark.IsZero() && r.Wall.Before(c.mark.Add(-MaxBehind)) {
		return fmt.Sprintf("the clock says %s, which is before %s that it showed earlier",
			r.Wall.Format(time.RFC3339), c.mark.Format(time.RFC3339))
	}
	if c.anchored {
		jump := r.Wall.Sub(c.anchor.Wall) - (r.Elapsed - c.anchor.Elapsed)
		if jump.Abs() > MaxJump {
			return fmt.Sprintf("the clock jumped by %s", jump.Round(time.Second))
		}
		return ""
	}
	away := MaxAway + (r.Elapsed - c.start.Elapsed)
	if !c.mark.IsZero() && r.Wall.After(c.mark.Add(away)) {
		return fmt.Sprintf("the clock says %s, more than 30 days after %s, when the gate last ran",
			r.Wall.Format(time.RFC3339), c.mark.Format(time.RFC3339))
	}
	return ""
}

// guess is the time by the last believed reading and the time since.
func (c *Clock) guess(r Reading) time.Time {
	if !c.anchored {
		return c.mark
	}
	t := c.anchor.Wall.Add(r.Elapsed - c.anchor.Elapsed)
	if t.Before(c.mark) {
		return c.mark
	}
	return t
}

// Seal writes the mark, at most once a second; the store calls it once per
// group, before COMMIT, and Sealed after it.
func (c *Clock) Seal(tx *store.Tx) error {
	c.mu.Lock()
	unix := c.mark.Unix()
	fresh := c.mark.IsZero() || unix <= c.stored
	if !fresh {
		c.sealed = unix
	}
	c.mu.Unlock()
	if fresh {
		return nil
	}
	_, err := tx.Exec(`INSERT INTO time_mark(id, unix) VALUES(1, ?)
		ON CONFLICT(id) DO UPDATE SET unix = excluded.unix WHERE unix < excluded.unix`, unix)
	return err
}

// Sealed says that the group which Seal wrote in is on disk. Until then the
// mark counts as not written: a group may be lost, and the next one, which may
// forget nonces, has to carry the mark that covers them.
func (c *Clock) Sealed() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stored = max(c.stored, c.sealed)
}

// SetMark replaces the mark, for a restore, which begins a new gate id.
func SetMark(tx *store.Tx, t time.Time) error {
	_, err := tx.Exec(`INSERT INTO time_mark(id, unix) VALUES(1, ?)
		ON CONFLICT(id) DO UPDATE SET unix = excluded.unix`, t.Unix())
	return err
}
