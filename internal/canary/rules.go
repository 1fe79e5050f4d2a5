package canary

import "time"

// Rules say how long is watched and what is a difference. All are above 0,
// Decisions is at least twice Minimum and at most 2000, and Floor below 100.
type Rules struct {
	Decisions int // that a window has at most, and its baseline
	Days      int // that a window lasts at most
	Minimum   int // decisions of a sort without which nothing is compared
	Floor     int // percentage points below which a difference is noise
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
