package service

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
)

// A change between the look and the wait is not lost: the job is looked at again.
func TestAChangeDuringALookIsSeen(t *testing.T) {
	t.Parallel()
	w := &Waits{by: map[string]*watched{}}
	looks := 0
	require.NoError(t, w.Until(t.Context(), 7, func() (bool, error) {
		if looks++; looks < 3 {
			w.changed([]string{"j6", "j7"})
		}
		return looks == 3, nil
	}))
	require.Equal(t, 3, looks)
	require.Empty(t, w.by, "nothing is kept of a job for which no caller waits")
}

// A thousand callers wait for two jobs. A change of one wakes those of that job, each once.
func TestAThousandWaiters(t *testing.T) {
	t.Parallel()
	const each = 500
	w := &Waits{by: map[string]*watched{}}
	var changed [3]atomic.Bool
	var looks [3]atomic.Int64
	var first, ended sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for id := range op.JobID(2) {
		id++
		for range each {
			first.Add(1)
			begun := sync.OnceFunc(first.Done)
			ended.Go(func() {
				_ = w.Until(ctx, id, func() (bool, error) {
					defer begun() // when the look is over: a change in its middle would make it the last one
					looks[id].Add(1)
					return changed[id].Load(), nil
				})
			})
		}
	}
	first.Wait()
	require.Equal(t, 2*each, w.Waiting())
	require.Len(t, w.by, 2)
	changed[1].Store(true)
	w.changed([]string{"j1", "j3"})
	require.Eventually(t, func() bool { return w.Waiting() == each }, time.Minute, time.Millisecond)
	require.EqualValues(t, 2*each, looks[1].Load())
	require.EqualValues(t, each, looks[2].Load(), "a change of another job wakes no caller")
	cancel()
	ended.Wait()
	require.Zero(t, w.Waiting())
	require.Empty(t, w.by)
}

func TestAWaitEndsWithItsContextOrItsLook(t *testing.T) {
	t.Parallel()
	w := &Waits{by: map[string]*watched{}}
	why := errors.New("the caller has hung up")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	require.ErrorIs(t, w.Until(ctx, 1, func() (bool, error) { return false, nil }), why)
	require.ErrorIs(t, w.Until(t.Context(), 1, func() (bool, error) { return false, why }), why)
	require.Empty(t, w.by)
}
