// Package spareuids has ranges of uids that nothing else on the machine uses, for
// tests alone: those of guests, which a driver kills by uid.
package spareuids

import (
	"fmt"
	"os"
	"sync/atomic"
)

// Len is how many uids a range has.
const Len = 32

// ranges is how many ranges a process has. More than these come again; of two
// worlds that share one, the later takes uids that no process has.
const ranges = 24

var given atomic.Uint32

// Next returns the ends of a range. Two processes never have the same uid in it,
// because their pids differ.
func Next() (first, last uint32) {
	const base, pids = 1 << 30, 1 << 22 // pids are at most 2^22 (proc(5), pid_max)
	n := given.Add(1) % ranges
	first = base + (uint32(os.Getpid())%pids*ranges+n)*Len
	return first, first + Len - 1
}

// Line is the line of gated.yaml, below local, with a range for guests. It is empty
// where this process is not root and could not use one.
func Line() string {
	if os.Geteuid() != 0 {
		return ""
	}
	first, last := Next()
	return fmt.Sprintf("  guest_uids: %d-%d\n", first, last)
}

// WideLine is Line with a range above all that Next gives, of 252 uids: for a
// gate that makes and destroys many guests. A process has one.
func WideLine() string {
	if os.Geteuid() != 0 {
		return ""
	}
	const base, pids, width = 3 << 30, 1 << 22, 256
	first := uint32(base + os.Getpid()%pids*width)
	return fmt.Sprintf("  guest_uids: %d-%d\n", first, first+251) // 4294967294 and above are no uids
}
