package nonce

import (
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"gated/internal/base/proc"
)

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
