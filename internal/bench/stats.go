package bench

import (
	"slices"
	"time"
)

// median of what fn returns when it is called n times.
func median(n int, fn func() (float64, error)) (float64, error) {
	values := make([]float64, 0, n)
	for range n {
		v, err := fn()
		if err != nil {
			return 0, err
		}
		values = append(values, v)
	}
	return middle(values), nil
}

// middle is the median of values, which it sorts.
func middle(values []float64) float64 { return quantile(values, 0.5) }

// quantile is the value below which the part q of all values lies.
func quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	return values[min(len(values)-1, int(q*float64(len(values))))]
}

func inMillis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// rate is how many of n a second has when n took d.
func rate(n int, d time.Duration) float64 { return float64(n) / d.Seconds() }
