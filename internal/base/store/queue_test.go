package store

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// waited is a context that says when it is waited for the second time, which
// Update does once its call is in the queue.
type waited struct {
	context.Context
	times  atomic.Int32
	queued chan struct{}
}

func (w *waited) Done() <-chan struct{} {
	if w.times.Add(1) == 2 {
		close(w.queued)
	}
	return w.Context.Done()
}

func TestCancelledInTheQueueNeverRuns(t *testing.T) {
	s := tempStore(t)
	entered, release := make(chan struct{}), make(chan struct{})
	var first error
	var wg sync.WaitGroup
	wg.Go(func() {
		first = s.Update(context.Background(), func(tx *Tx) error {
			close(entered)
			<-release
			return put("first")(tx)
		})
	})
	<-entered
	inner, cancel := context.WithCancel(t.Context())
	ctx := &waited{Context: inner, queued: make(chan struct{})}
	answer := make(chan error)
	go func() { answer <- s.Update(ctx, put("second")) }()
	<-ctx.queued
	require.Len(t, s.writer.queue, 1)
	cancel()
	err := <-answer
	require.ErrorIs(t, err, ErrUnavailable)
	require.ErrorIs(t, err, context.Canceled)
	close(release)
	wg.Wait()
	require.NoError(t, first)
	require.NoError(t, s.Update(t.Context(), put("third")))
	require.Equal(t, map[string]bool{"first": true, "third": true}, keys(t, s))
}

func TestAFullQueueWaitsAndCanBeLeft(t *testing.T) {
	s := tempStore(t)
	entered, release := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		_ = s.Update(context.Background(), func(*Tx) error { close(entered); <-release; return nil })
	})
	<-entered
	calls := make([]*call, maxQueue)
	for i := range calls {
		calls[i] = &call{fn: put(fmt.Sprint(i)), done: make(chan error, 1)}
		require.NoError(t, s.writer.enqueue(t.Context(), calls[i]))
	}
	ctx, cancel := context.WithCancel(t.Context())
	answer := make(chan error)
	go func() { answer <- s.Update(ctx, put("late")) }()
	cancel()
	require.ErrorIs(t, <-answer, context.Canceled)
	close(release)
	for _, c := range calls {
		require.NoError(t, <-c.done)
	}
	wg.Wait()
	require.Len(t, keys(t, s), maxQueue)
}

func TestCancelledAfterItBeganIsAnsweredWithTheTruth(t *testing.T) {
	s := tempStore(t)
	ctx, cancel := context.WithCancel(t.Context())
	require.NoError(t, s.Update(ctx, func(tx *Tx) error {
		cancel()
		return put("a")(tx)
	}))
	require.True(t, keys(t, s)["a"])
	require.ErrorIs(t, s.Update(ctx, put("b")), context.Canceled)
}

func TestCloseDrainsAndRefuses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "gated.db")
	s := open(t, path, Options{})
	var wg sync.WaitGroup
	told := make([]error, 200)
	for i := range told {
		wg.Go(func() { told[i] = s.Update(context.Background(), put(fmt.Sprint(i))) })
	}
	require.NoError(t, s.Close())
	wg.Wait()
	require.ErrorIs(t, s.Update(t.Context(), put("late")), ErrUnavailable)
	require.ErrorIs(t, s.View(t.Context(), func(*Tx) error { return nil }), ErrUnavailable)
	have := keys(t, open(t, path, Options{}))
	for i, err := range told {
		require.Equal(t, err == nil, have[fmt.Sprint(i)], "call %d: %v", i, err)
	}
}

func TestGoexitInAFunctionFailsItsGroupOnly(t *testing.T) {
	s := tempStore(t)
	inner := make(chan error, 1)
	go func() {
		inner <- s.Update(context.Background(), func(tx *Tx) error {
			_ = put("a")(tx)
			(&testing.T{}).FailNow()
			return nil
		})
	}()
	require.ErrorIs(t, <-inner, ErrUnavailable)
	require.NoError(t, s.Update(t.Context(), put("b")))
	require.Equal(t, map[string]bool{"b": true}, keys(t, s))
}
