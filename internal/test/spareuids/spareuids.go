// Package spareuids has ranges of uids that nothing else on the machine uses, for
// tests alone: those of guests, which a driver kills by uid.
package spareuids

import (
	"fmt"
	"os"
	"time"
)

// Len is how many uids a range has.
const Len = 32

// ranges is how many ranges a process has.
const ranges = 16

// free has the numbers of the ranges that nobody has, the one that is free for longest first.
var free = make(chan uint32, ranges)

func init() {
	for n := range uint32(ranges) {
		free <- n
	}
}

// Next returns the ends of a range that is the caller's until the function that it gives to cleanup runs, such as t.Cleanup. A
// guest of another test with the same uid would be killed with the caller's. If all 16 ranges of the process are in use, Next
// waits for one, for at most five minutes. Two processes never have the same uid, because their pids differ.
func Next(cleanup func(giveBack func())) (first, last uint32) {
	var n uint32
	select {
	case n = <-free:
	case <-time.After(5 * time.Minute):
		panic(fmt.Sprintf("all %d ranges of uids are in use, and none is given back", ranges))
	}
	cleanup(func() { free <- n })
	const base, pids = 1 << 30, 1 << 22 // pids are at most 2^22 (proc(5), pid_max)
	first = base + (uint32(os.Getpid())%pids*ranges+n)*Len
	return first, first + Len - 1
}

// Line is the line of gated.yaml, below local, with a range of Next for guests. It is empty
// where this process is not root and could not use one.
func Line(cleanup func(giveBack func())) string {
	if os.Geteuid() != 0 {
		return ""
	}
	first, last := Next(cleanup)
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
