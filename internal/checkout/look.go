package checkout

import (
	"context"
	"time"
)

// Look does something on a file system, waiting for a place among those under way
// and for its end no longer than limit, together: a file system in user space, or
// one of a server that is gone, may never answer. What never comes back costs a
// goroutine, of which there are as many at most as places holds. The error is
// look's, or why ctx ended.
func Look[T any](ctx context.Context, places chan struct{}, limit time.Duration, look func() (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var none T
	select {
	case places <- struct{}{}:
	case <-ctx.Done():
		return none, ctx.Err()
	}
	type found struct {
		what T
		err  error
	}
	ready := make(chan found, 1)
	go func() {
		defer func() { <-places }()
		what, err := look()
		ready <- found{what, err}
	}()
	select {
	case f := <-ready:
		return f.what, f.err
	case <-ctx.Done():
		return none, ctx.Err()
	}
}
