// Package spareuids has ranges of uids that nothing else on the machine uses, for
// tests alone: those of guests, which a driver kills by uid.
package spareuids

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"sync/atomic"
)

// Len is how many uids a range has.
const Len = 252

// The ranges begin at base, width uids apart. The last one ends below 4294967294: from there on, no number is a uid.
const (
	base  = 1 << 30
	width = 256
	count = (1<<32 - base) / width
)

// start is where this process begins, and given counts the ranges that it looked at. Two processes begin far from each other,
// so no range is used again soon: a stray process of the last user would be killed, or kill.
var (
	start = rand.Uint64N(count)
	given atomic.Uint64
)

// Next returns the ends of a range that is the caller's until the function that it gives to cleanup runs, such as t.Cleanup. A
// guest of another test with the same uid would be killed with the caller's. So the range is held by a socket in the abstract
// namespace (unix(7)), which one process has at a time and which goes with it.
func Next(cleanup func(giveBack func())) (first, last uint32) {
	for range uint64(count) {
		n := (start + given.Add(1)) % count
		held, err := net.Listen("unix", fmt.Sprintf("@gated-test-uids-%d", n))
		if err != nil {
			continue
		}
		cleanup(func() { _ = held.Close() })
		first = uint32(base + n*width)
		return first, first + Len - 1
	}
	panic("no range of uids is free")
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
