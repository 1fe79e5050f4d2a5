package reconcile

import (
	"bytes"
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
)

// underWay has a step that was signed, is dispatched, and does not end until
// release is called, or its context ends where the fleet hangs.
func (w *world) underWay(hang bool) (release func(), stop func()) {
	w.t.Helper()
	w.fleet.make("a", stopped, nil)
	w.submit(ask("guest.destroy", "a", nil))
	w.approve(w.request())
	begun, released := make(chan struct{}), make(chan struct{})
	w.fleet.after = func(op.Step) error {
		close(begun)
		if !hang {
			<-released
		}
		return nil
	}
	w.fleet.hang = hang
	stop = w.live()
	<-begun
	return sync.OnceFunc(func() { close(released) }), stop
}

// A stop waits for a step that has begun.
func TestAStopLetsAStepEnd(t *testing.T) {
	w := newWorld(t)
	release, stop := w.underWay(false)
	ended := make(chan struct{})
	go func() { stop(); close(ended) }()
	select {
	case <-ended:
		t.Fatal("it did not wait")
	default:
	}
	release()
	<-ended
	require.Equal(t, op.StateSucceeded, w.job(1).Steps[0].State)
	require.False(t, w.fleet.has("a"))
}

// One that does not end in time is cut off, and what is true is recorded.
func TestAStopCutsOffWhatHangs(t *testing.T) {
	w := newWorld(t)
	w.r.StopGrace = time.Millisecond
	_, stop := w.underWay(true)
	stop()
	require.Equal(t, op.StateInterrupted, w.job(1).Steps[0].State)
	require.True(t, w.fleet.has("a"))
}

// A driver that does not even mind its context is left behind: the journal has
// the step as under way, and the next start ends it.
func TestAStopLeavesADriverBehind(t *testing.T) {
	w := newWorld(t)
	var log bytes.Buffer
	w.r.Logger = slog.New(slog.NewTextHandler(&log, nil))
	w.r.StopGrace, w.r.handOver = time.Millisecond, time.Millisecond
	release, stop := w.underWay(false)
	stop()
	require.Contains(t, log.String(), "a driver does not return")
	require.Equal(t, op.StateDispatched, w.job(1).Steps[0].State)
	left := w.r
	w.fleet.after = nil
	w.restart()
	require.Equal(t, op.StateInterrupted, w.job(1).Steps[0].State)
	require.True(t, w.fleet.has("a"))

	// It comes back after all, to a store that is closed.
	release()
	waiting, _, _ := left.queue.depth()
	require.Zero(t, waiting)
	require.Error(t, context.Cause(left.cut))
	require.Equal(t, op.StateInterrupted, w.job(1).Steps[0].State, "that was decided")
}
