package canary

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestNoCallerIsHidden: the busiest caller hides no other. A sixth of all answers
// are refusals, and a third of the others' answers.
func TestNoCallerIsHidden(t *testing.T) {
	w := newTape(t)
	w.planned("uid:1", 60)
	w.planned("uid:2", 60)
	w.policy("other")
	w.planned("agent:busy#1", 60)
	for _, by := range []string{"uid:1", "uid:2"} {
		w.planned(by, 20)
		w.refused(by, 10)
	}
	w.says(Alert, "refused 20 of 60, before 0 of 120")
}

// TestItLooksAtFixedNumbers: it compares at 30 answers, and then at every tenth of a
// window of 100.
func TestItLooksAtFixedNumbers(t *testing.T) {
	w := newTape(t)
	w.planned("uid:1", 100)
	w.policy("other")
	w.planned("uid:1", 25)
	w.refused("uid:1", 14) // 7 of 32 would have been enough
	w.watches()
	w.refused("uid:1", 1)
	w.says(Alert, "refused 15 of 40")
}

// TestTheTimeToApprove: it must differ by a factor and by a length.
func TestTheTimeToApprove(t *testing.T) {
	waits := func(seconds int64) tally {
		t := tally{of: map[Sort]int{Approved: 30}}
		for range 30 {
			t.waits = append(t.waits, seconds)
		}
		return t
	}
	for _, c := range []struct {
		was, is int64
		want    int
	}{{200, 799, 0}, {199, 796, 0}, {200, 800, 1}, {800, 200, 1}, {0, 599, 0}, {0, 600, 1}, {3600, 14399, 0}, {3600, 14400, 1}, {14400, 3600, 1}} {
		require.Len(t, shifts(waits(c.was), waits(c.is), rules), c.want, "%d %d", c.was, c.is)
	}
}

// TestOppositeDirectionsAreNotTheSame: shifts in opposite directions have nothing in
// common.
func TestOppositeDirectionsAreNotTheSame(t *testing.T) {
	up, down := shift{what: "refused", up: true}, shift{what: "refused"}
	require.Equal(t, []shift{up}, common([]shift{up, down}, []shift{up}))
	require.Empty(t, common([]shift{up}, []shift{down, {what: "pending", up: true}}))
}

func TestCallers(t *testing.T) {
	require.Equal(t, "agent:builder", caller("agent:builder#7"))
	require.Equal(t, "desired:a#b", caller("desired:a#b"))
	require.Len(t, caller(strings.Repeat("a", 129)), 128)
}
