package checkout

import (
	"context"
	"time"
)

// Look does something on a file system. It waits at most limit, in all, for a place and for the end: a file system in
// user space, or of a dead server, may never answer. A call that never returns costs a goroutine; places bounds their
// number. The error is look's, or the cause of ctx.
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
