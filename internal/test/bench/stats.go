package bench

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
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

// quantile is the value below which the part q of all values lies. It sorts them.
func quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	return values[min(len(values)-1, int(q*float64(len(values))))]
}

func inMillis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func inMicros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// rate is how many of n a second has if n took d.
func rate(n int, d time.Duration) float64 { return float64(n) / d.Seconds() }

// share has workers do the jobs 0 to n-1 side by side. It returns the time for all
// jobs, and that for each in milliseconds. A worker stops at its first error.
func share(workers, n int, work func(worker, job int) error) (all time.Duration, each []float64, err error) {
	var next atomic.Int64
	var wg sync.WaitGroup
	each = make([]float64, n)
	errs := make([]error, workers)
	began := now()
	for i := range workers {
		wg.Go(func() {
			for k := int(next.Add(1)) - 1; k < n && errs[i] == nil; k = int(next.Add(1)) - 1 {
				sent := now()
				errs[i] = work(i, k)
				each[k] = inMillis(now().Sub(sent))
			}
		})
	}
	wg.Wait()
	return now().Sub(began), each, errors.Join(errs...)
}

// during calls work on n goroutines until d has passed, and returns calls a second.
func during(n int, d time.Duration, work func() error) (float64, error) {
	var count atomic.Int64
	var wg sync.WaitGroup
	errs := make([]error, n)
	began := now()
	for i := range n {
		wg.Go(func() {
			for now().Sub(began) < d && errs[i] == nil {
				errs[i] = work()
				count.Add(1)
			}
		})
	}
	wg.Wait()
	return rate(int(count.Load()), now().Sub(began)), errors.Join(errs...)
}
