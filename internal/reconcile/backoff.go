package reconcile

import "time"

// Back-off doubles from the first delay to the longest.
const (
	firstDelay = time.Second
	maxDelay   = 5 * time.Minute
	// maxWait is the longest delay for a step that did not begin, because its back end, the journal or the clock was
	// not there. Asking again costs little.
	maxWait = 5 * time.Second
	// calm is how long a target must rest before its count begins again.
	calm = 2 * maxDelay
)

// backoff returns how long to wait after the n-th time, n from 1. It is between half and the whole of the doubled
// delay, so that steps that failed together do not return together. random is in [0, 1).
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
	key   string // the work that must wait for until
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

// left returns how long key still has to wait. If that is more than the longest delay, the clock was set back, and left
// returns 0.
func (r *retry) left(key string, now time.Time) time.Duration {
	if r == nil || r.key != key {
		return 0
	}
	if d := r.until.Sub(now); d > 0 && d <= maxDelay {
		return d
	}
	return 0
}
