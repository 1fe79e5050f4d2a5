package nonce

import (
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"gated/internal/proc"
)

// Reading is one look at both clocks of a host: the wall clock, which somebody
// may set, and the time since boot, which goes on during suspend and which
// nobody sets.
type Reading struct {
	Wall    time.Time
	Elapsed time.Duration // since boot
	Boot    string        // the kernel's id of this boot, "" if it is not known
	Blind   bool          // the time since boot could not be read, so nothing shows a jump
}

// bootID is read once: a process does not outlive its kernel.
var bootID = sync.OnceValue(func() string {
	id, err := proc.BootID()
	if err != nil {
		return "" // no /proc: a start is then one after a boot
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

// at is what the wall clock shows at another time since boot, if nobody sets it.
func (r Reading) at(elapsed time.Duration) time.Time { return r.Wall.Add(elapsed - r.Elapsed) }

// Jump is by how much the wall clock moved between two readings of one boot
// against the time that passed.
func (r Reading) Jump(since Reading) time.Duration { return r.Wall.Sub(since.at(r.Elapsed)) }

// whole is the same line of time, at a whole second of the wall clock.
func (r Reading) whole() Reading {
	second := r.Wall.Truncate(time.Second)
	r.Elapsed -= r.Wall.Sub(second)
	r.Wall = second
	return r
}
