package nonce

import (
	"fmt"
	"sync"
	"time"

	"gated/internal/store"
)

// What the clock accepts without an operator.
const (
	// MaxBehind is how far the wall clock may be behind the mark.
	MaxBehind = 60 * time.Second
	// MaxJump is how far the wall clock may move against the time since boot, in
	// one step or in several within a Span.
	MaxJump = time.Hour
	// Span is the time since boot after which steps count anew.
	Span = 24 * time.Hour
	// MaxAway is how far ahead of the mark the wall clock may be at the first
	// start since a boot.
	MaxAway = 30 * 24 * time.Hour
)

// Clock is the gate's time: never behind its durable mark, and not carried
// away by a wall clock that jumps. While the wall clock is not believed, Now is
// the best that is known and signed work waits.
type Clock struct {
	read func() Reading

	mu     sync.Mutex
	mark   Reading // the latest time that was believed, as it was read
	shown  time.Time
	stored Reading // the mark in the database
	sealed Reading // the mark that the group under way writes
	start  Reading

	anchored bool
	anchor   Reading // the last reading that was believed
	base     Reading // the one of up to a Span ago that steps are counted from
}

// Moment is one look at the gate's time.
type Moment struct {
	Now     time.Time
	Mark    time.Time // the latest time that a believed clock showed; never after Now
	Trusted bool
	Why     string // if not trusted, a sentence
}

// LoadClock returns a clock that starts from the mark in the database. Where
// the machine has not booted since that was written, the clock goes on from it:
// a jump that the daemon saw, or that was made while it did not run, shows.
// After a boot nothing but MaxAway can show one.
func LoadClock(tx *store.Tx, read func() Reading) (*Clock, error) {
	c := &Clock{read: read, start: read()}
	mark, ok, err := ReadMark(tx)
	if err != nil || !ok {
		return c, err
	}
	c.mark, c.stored = mark, mark
	// A time since boot that went back is of another run of the same boot, as
	// when a snapshot of a virtual machine with its memory is gone back to: what
	// passed since is as little known as after a boot.
	if mark.Boot != "" && mark.Boot == c.start.Boot && !c.start.Blind && c.start.Elapsed >= mark.Elapsed {
		c.anchored, c.anchor, c.base = true, mark, mark
	}
	return c, nil
}

// Now looks at the clocks. A believed wall clock moves the mark.
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
		// The wall clock is behind the mark of the boot before, by MaxBehind at
		// most. From here on a start of the daemon sees a jump in this boot.
		c.mark.Boot, c.mark.Elapsed = r.Boot, r.Elapsed
	}
	return Moment{Now: c.show(c.mark.Wall), Mark: c.mark.Wall, Trusted: true}
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

// jumped compares with both anchors. What was shown goes by the last reading
// that was believed: it is never ahead of the mark by more than MaxJump.
func (c *Clock) jumped(r Reading) string {
	if by := r.Jump(c.anchor); by.Abs() > MaxJump {
		return fmt.Sprintf("the clock jumped by %s", by.Round(time.Second))
	}
	if by := r.Jump(c.base); by.Abs() > MaxJump {
		return fmt.Sprintf("the clock moved by %s since %s, in steps", by.Round(time.Second), c.base.Wall.Format(time.RFC3339))
	}
	return ""
}

// guess is the time by the last believed reading and the time since.
func (c *Clock) guess(r Reading) time.Time {
	if !c.anchored || r.Blind {
		return c.mark.Wall
	}
	if t := c.anchor.at(r.Elapsed); t.After(c.mark.Wall) {
		return t
	}
	return c.mark.Wall
}
