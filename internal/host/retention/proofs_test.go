package retention_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/refusal"
	"gated/internal/host/service"
	"gated/internal/log/audit"
	"gated/internal/test/must"
)

// slowOlder reads segments when the test lets it.
type slowOlder struct {
	audit.Older
	began         chan struct{}
	let           chan struct{}
	reading, most atomic.Int64
}

func (o *slowOlder) Texts(s audit.Segment) ([][]byte, error) {
	if n := o.reading.Add(1); n > o.most.Load() {
		o.most.Store(n)
	}
	defer o.reading.Add(-1)
	o.began <- struct{}{}
	<-o.let
	return o.Older.Texts(s)
}

// TestProofsFromFilesLeaveDecisionsAlone: however many callers ask for archived entries, one file is read at a time, and all else
// finds a connection to the database.
func TestProofsFromFilesLeaveDecisionsAlone(t *testing.T) {
	w := newWorld(t)
	w.busy(110)
	w.pass(25 * time.Hour)
	w.archive()
	older := &slowOlder{Older: w.older(), began: make(chan struct{}, 100), let: make(chan struct{})}
	log := service.NewLog(w.gate, w.store, older)
	const callers = 40
	errs := make(chan error, callers)
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			_, err := log.Inclusion(t.Context(), 5)
			errs <- err
		})
	}
	<-older.began
	for range 20 { // more than there are connections
		w.do("guest.start", "busy")
		w.do("guest.stop", "busy")
		must.Get(log.Inclusion(t.Context(), w.bound()+1))(t) // needs no file
		must.Get(log.Consistency(t.Context(), 300, 310))(t)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := log.Inclusion(ctx, 5)
	require.ErrorIs(t, err, refusal.Unavailable)
	close(older.let)
	all.Wait()
	for range callers {
		require.NoError(t, <-errs)
	}
	require.EqualValues(t, 1, older.most.Load())
}
