package canary

import "time"

// Bounds of what can be set.
const (
	MinDecisions, DefaultDecisions, MaxDecisions = 20, 200, 1000
	MinDays, DefaultDays, MaxDays                = 1, 7, 30
	MinMinimum, DefaultMinimum, MaxMinimum       = 10, 30, 500
	MinFloor, DefaultFloor, MaxFloor             = 5, 20, 50
)

// Rules say how long is watched and what is a difference. They are valid within
// the bounds above and with Decisions at least twice Minimum.
type Rules struct {
	Decisions int // that a window has at most, and its baseline
	Days      int // that a window lasts at most
	Minimum   int // decisions of a sort without which nothing is compared
	Floor     int // percentage points below which a difference is noise
}

// Default returns the rules of a configuration that says nothing.
func Default() Rules {
	return Rules{Decisions: DefaultDecisions, Days: DefaultDays, Minimum: DefaultMinimum, Floor: DefaultFloor}
}

// What counts as a difference beside Rules.Floor.
const (
	// errorsSquared is the square of how many standard errors of the difference of
	// two proportions it has to be: four are exceeded by chance once in 16,000
	// comparisons.
	errorsSquared = 16
	// slower is by how much the median time to approve has to differ, as a
	// factor and in seconds.
	slower        = 4
	slowerSeconds = 600
	// looks is how often a window that is not full is looked at.
	looks = 10
)

// What is kept at most.
const (
	maxSteps  = 1024 // steps under way of which it is known who asked, and when
	maxSeen   = 512  // refusals of one hour, to count repeats once
	maxWait   = int64(MaxUnresolved / time.Second)
	maxCaller = 128 // bytes of a caller's name
)

// MaxUnresolved is how long after its change a canary without an end is shown as
// something that is wrong.
const MaxUnresolved = 30 * 24 * time.Hour
