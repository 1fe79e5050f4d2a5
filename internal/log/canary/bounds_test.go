package canary

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTheFloorIsADifference: a difference of the floor counts, and a smaller one
// does not.
func TestTheFloorIsADifference(t *testing.T) {
	for x, want := range map[int]bool{39: false, 40: true, 41: true} { // of 200, four standard errors are 16
		require.Equal(t, want, differ(0, 200, x, 200, 20), x)
		require.Equal(t, want, differ(x, 200, 0, 200, 20), x)
	}
}

// TestFourStandardErrorsAreADifference: 14 of 56 and 0 of 56 differ by exactly four
// standard errors, which is above the floor.
func TestFourStandardErrorsAreADifference(t *testing.T) {
	for x, want := range map[int]bool{13: false, 14: true, 15: true} {
		require.Equal(t, want, differ(0, 56, x, 56, 20), x)
		require.Equal(t, want, differ(x, 56, 0, 56, 20), x)
	}
}

// TestTheMinimumIsCompared: on both sides, of every sort.
func TestTheMinimumIsCompared(t *testing.T) {
	for _, c := range []struct {
		was, is int
		want    bool
	}{{29, 31, false}, {30, 31, true}, {31, 31, true}, {31, 29, false}, {31, 30, true}, {30, 30, true}, {29, 29, false}} {
		name := fmt.Sprint(c)
		of := func(what Sort, n int) tally { return tally{of: map[Sort]int{what: n}} }
		for what, out := range map[string][]shift{
			"refused":  shifts(of(Planned, c.was), of(Refused, c.is), rules),
			"pending":  shifts(of(Planned, c.was), of(Pending, c.is), rules),
			"approved": shifts(of(Denied, c.was), of(Approved, c.is), rules),
			"time to approve": shifts(tally{waits: make([]int64, c.was)}, tally{waits: func() (out []int64) {
				for range c.is {
					out = append(out, 3600)
				}
				return out
			}()}, rules),
		} {
			if !c.want {
				require.Empty(t, out, "%s %s", what, name)
				continue
			}
			require.Len(t, out, 1, "%s %s", what, name)
			require.Equal(t, what, out[0].what)
			require.True(t, out[0].up)
		}
	}
}

// answers has so many answers to each caller, by name.
func answers(n ...int) (out []Decision) {
	for i, k := range n {
		for range k {
			out = append(out, Decision{By: string(rune('a' + i)), Sort: Planned})
		}
	}
	return out
}

func TestHalfIsHalf(t *testing.T) {
	for n, want := range map[int]bool{29: false, 30: true, 31: true} {
		some, all := answers(n, 60-n), answers(60)
		require.Equal(t, want, halves(some, all)("a"), n)
		require.Equal(t, want, halves(all, some)("a"), n)
	}
	require.False(t, halves(nil, nil)("a"))
}

// TestTheMinimumIsEnough: of all answers, and of all without any one caller.
func TestTheMinimumIsEnough(t *testing.T) {
	for n, want := range map[int]bool{29: false, 30: true, 31: true} {
		one, other := answers(n), answers(40) // a caller with half of both counts
		require.Equal(t, want, enough(one, other, rules), n)
		require.Equal(t, want, enough(other, one, rules), n)
	}
	for n, want := range map[int]bool{14: false, 15: true, 16: true} {
		three, others := answers(15, 15, n), answers(20, 20, 20)
		require.Equal(t, want, enough(three, others, rules), n)
		require.Equal(t, want, enough(others, three, rules), n)
	}
}

// TestHalfOfBeforeMayFillTheWindow: a caller with half of all answers before may
// have more than half of the window. A caller with less may not.
func TestHalfOfBeforeMayFillTheWindow(t *testing.T) {
	for n, want := range map[int]int{49: 50, 50: 60, 51: 60} {
		w := newTape(t)
		w.planned("uid:1", n)
		w.planned("uid:2", 100-n)
		w.policy("other")
		w.planned("uid:1", 60)
		require.Equal(t, want, Answers(w.state.Recent), n)
	}
}
