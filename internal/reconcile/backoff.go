package reconcile

import "time"

// Back-off doubles from the first delay to the longest.
const (
	firstDelay = time.Second
	maxDelay   = 5 * time.Minute
	// maxWait is the longest for a step that did not begin, because its back end,
	// the journal or the clock was not there: nothing is worn by asking again.
	maxWait = 5 * time.Second
	// calm is how long a target must have been left alone for its count to begin
	// again.
	calm = 2 * maxDelay
)

// backoff returns how long to wait after the n-th time, n from 1: between half
// and the whole of the doubled delay, so that what failed together does not
// come back together. random is in [0, 1).
func backoff(n int, random float64) time.Duration {
	d := maxDelay
	if n < 1 {
		n = 1
	}
	if shift := n - 1; shift < 16 && firstDelay<<shift < maxDelay {
		d = firstDelay << shift
	}
	return d/2 + time.Duration(random*float64(d/2))
}

// retry is the back-off of one target.
type retry struct {
	key   string // what is not to be done again before until
	count int
	until time.Time
}

// again counts one more time and returns how long to wait.
func (r *retry) again(key string, now time.Time, random float64) time.Duration {
	if r.key != key || now.Sub(r.until) > calm {
		r.count = 0
	}
	r.key = key
	r.count++
	d := backoff(r.count, random)
	r.until = now.Add(d)
	return d
}

// left returns how long key has to wait yet. More than the longest delay means
// that the clock was set back, and is nothing.
func (r *retry) left(key string, now time.Time) time.Duration {
	if r == nil || r.key != key {
		return 0
	}
	if d := r.until.Sub(now); d > 0 && d <= maxDelay {
		return d
	}
	return 0
}
