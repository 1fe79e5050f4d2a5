package nonce

import (
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"gated/internal/base/proc"
	"gated/internal/base/store"
)

// The changes of time that the clock accepts without an operator.
const (
	// MaxBehind is how far the wall clock may be behind the mark.
	MaxBehind = 60 * time.Second
	// MaxJump is how far the wall clock may move against the time since boot, in one
	// step or in several steps within a Span.
	MaxJump = time.Hour
	// Span is the time since boot after which the clock counts steps anew.
	Span = 24 * time.Hour
	// MaxAway is how far ahead of the mark the wall clock may be at the first start
	// after a boot.
	MaxAway = 30 * 24 * time.Hour
)

// Clock is the gate's time. It is never behind its durable mark, and it does not
// follow a wall clock that jumps. While the gate does not trust the wall clock, Now
// is the best guess and signed work waits.
type Clock struct {
	read func() Reading

	mu     sync.Mutex
	mark   Reading // the latest trusted time, as it was read
	shown  time.Time
	stored Reading // the mark in the database
	sealed Reading // the mark that the present group writes
	start  Reading

	anchored bool
	anchor   Reading // the last trusted reading
	base     Reading // the reading, at most a Span old, that steps are counted from
}

// Moment is one reading of the gate's time.
type Moment struct {
	Now     time.Time
	Mark    time.Time // the latest time of a trusted clock; never after Now
	Trusted bool
	Why     string // if not trusted, the reason as a sentence
}

// LoadClock returns a clock that starts from the mark in the database. If the
// machine has not booted since, the clock continues from the mark. So it notices a
// jump that the daemon saw, and one while the daemon did not run. After a boot, only
// MaxAway can show a jump.
func LoadClock(tx *store.Tx, read func() Reading) (*Clock, error) {
	c := &Clock{read: read, start: read()}
	mark, ok, err := ReadMark(tx)
	if err != nil || !ok {
		return c, err
	}
	c.mark, c.stored = mark, mark
	// If the time since boot went back, this is another run of the same boot: a
	// virtual machine returned to a snapshot with its memory. As after a boot, the
	// time that passed is not known.
	if mark.Boot != "" && mark.Boot == c.start.Boot && !c.start.Blind && c.start.Elapsed >= mark.Elapsed {
		c.anchored, c.anchor, c.base = true, mark, mark
	}
	return c, nil
}

// Now reads the clocks. A trusted wall clock moves the mark.
func (c *Clock) Now() Moment {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.read()
	why := c.doubt(r)
	if why != "" {
		return Moment{Now: c.show(c.guess(r)), Mark: c.mark.Wall, Why: why}
	}
	if !c.anchored || r.Elapsed-c.base.Elapsed >= Span {
		c.base = r
	}
	c.anchor, c.anchored = r, true
	switch {
	case r.Wall.After(c.mark.Wall):
		c.mark = r
	case !r.sameRun(c.mark):
		// The wall clock is behind the mark of the last boot, by MaxBehind at most. From
		// now on the mark is of this boot, so a later start of the daemon notices a
		// jump.
		c.mark.Boot, c.mark.Elapsed = r.Boot, r.Elapsed
	}
	return Moment{Now: c.show(c.mark.Wall), Mark: c.mark.Wall, Trusted: true}
}

// show keeps Now from going back. A guess by the time since boot may be ahead of the
// next trusted wall clock.
func (c *Clock) show(t time.Time) time.Time {
	if t.After(c.shown) {
		c.shown = t
	}
	return c.shown
}

// doubt returns why the gate does not trust the wall clock, or "".
func (c *Clock) doubt(r Reading) string {
	mark := c.mark.Wall
	switch {
	case r.Blind:
		return "the time since boot cannot be read, so a jump of the clock would not show"
	case !mark.IsZero() && r.Wall.Before(mark.Add(-MaxBehind)):
		return fmt.Sprintf("the clock says %s, which is before %s that it showed earlier",
			r.Wall.Format(time.RFC3339), mark.Format(time.RFC3339))
	case c.anchored:
		return c.jumped(r)
	case !mark.IsZero() && r.Wall.After(mark.Add(MaxAway+r.Elapsed-c.start.Elapsed)):
		return fmt.Sprintf("the clock says %s, more than 30 days after %s, when the gate last ran",
			r.Wall.Format(time.RFC3339), mark.Format(time.RFC3339))
	}
	return ""
}

// jumped compares the reading with both anchors. Now continues from the last trusted
// reading, so it is never ahead of the mark by more than MaxJump.
func (c *Clock) jumped(r Reading) string {
	if by := r.Jump(c.anchor); by.Abs() > MaxJump {
		return fmt.Sprintf("the clock jumped by %s", by.Round(time.Second))
	}
	if by := r.Jump(c.base); by.Abs() > MaxJump {
		return fmt.Sprintf("the clock moved by %s since %s, in steps", by.Round(time.Second), c.base.Wall.Format(time.RFC3339))
	}
	return ""
}

// guess returns the time by the last trusted reading and the time since.
func (c *Clock) guess(r Reading) time.Time {
	if !c.anchored || r.Blind {
		return c.mark.Wall
	}
	if t := c.anchor.at(r.Elapsed); t.After(c.mark.Wall) {
		return t
	}
	return c.mark.Wall
}

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

// Reading is one reading of both clocks of a host. Programs may set the wall clock.
// Nothing sets the time since boot, which continues during suspend.
type Reading struct {
	Wall    time.Time
	Elapsed time.Duration // since boot
	Boot    string        // the kernel's id of this boot, "" if it cannot be read
	Blind   bool          // the time since boot could not be read, so a jump cannot be noticed
}

// bootID is read once, because a process does not outlive its kernel.
var bootID = sync.OnceValue(func() string {
	id, err := proc.BootID()
	if err != nil {
		return "" // no /proc: each start then counts as one after a boot
	}
	return id
})

// System reads the kernel's CLOCK_REALTIME, CLOCK_BOOTTIME and boot id.
func System() Reading {
	var ts unix.Timespec
	r := Reading{Wall: time.Now().UTC(), Boot: bootID()}
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts) != nil {
		r.Blind = true
		return r
	}
	r.Elapsed = time.Duration(ts.Nano())
	return r
}

// SinceBoot reads CLOCK_BOOTTIME, which also goes on while the machine sleeps.
func SinceBoot() time.Duration { return System().Elapsed }

// at returns what the wall clock shows at another time since boot if it is not set.
func (r Reading) at(elapsed time.Duration) time.Time { return r.Wall.Add(elapsed - r.Elapsed) }

// Jump returns how far the wall clock moved between two readings of one boot, beyond
// the time that passed.
func (r Reading) Jump(since Reading) time.Duration { return r.Wall.Sub(since.at(r.Elapsed)) }

// whole returns the reading at the start of the wall clock's second, with both
// clocks moved alike.
func (r Reading) whole() Reading {
	second := r.Wall.Truncate(time.Second)
	r.Elapsed -= r.Wall.Sub(second)
	r.Wall = second
	return r
}
