package matrix_test

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver"
	"gated/internal/reconcile"
	"gated/internal/test/must"
)

var operator = op.Requester{Source: op.SourceAPI, UID: daemonUID, PID: 1}

// apply puts sets of desired state, as an operator's uid can, and reconciles.
func (w *world) apply(sets map[string]string) reconcile.Status {
	w.t.Helper()
	for name, doc := range sets {
		must.Get(w.gate.PutSet(w.ctx, operator, name, "", []byte(doc)))(w.t)
	}
	return w.reconcile(reconcile.NewAPI(w.gate))
}

// reconcile runs the real reconciler until nothing is left to do at once, and
// returns its status. What it would try again later it does not.
func (w *world) reconcile(sources ...reconcile.Source) reconcile.Status {
	w.t.Helper()
	const interval = 17 * time.Hour
	looked := make(chan struct{})
	var once sync.Once
	r := reconcile.New(reconcile.Config{Gate: w.gate, Drivers: map[string]driver.Driver{"guest": w.of("guest"), op.KindTrust: w.signers}, Sources: sources,
		Host: testHost, Interval: interval, Now: w.now,
		After: func(d time.Duration, _ func()) func() {
			if d == interval {
				once.Do(func() { close(looked) })
			}
			return func() {}
		}})
	wake := r.Wake
	w.wake.Store(&wake)
	defer w.wake.Store(nil)
	require.NoError(w.t, r.Recover(w.ctx))
	ctx, cancel := context.WithCancel(w.ctx)
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	<-looked
	require.Eventually(w.t, func() bool {
		q := r.Status().Queue
		return q.Waiting == 0 && q.Working == 0
	}, time.Minute, time.Millisecond)
	status := r.Status()
	cancel()
	require.NoError(w.t, <-ended)
	return status
}

// document is a desired-state document with the given guests.
func document(guests string) string {
	return "apiVersion: gated/v1\nhost: " + testHost + "\nguests:\n" + guests
}

// planned returns how reconcile's wishes for a guest stand: as the code of the
// first refusal, as waiting, or as nothing.
func (w *world) planned(name string) error {
	w.t.Helper()
	open := must.Get(w.gate.Open(w.ctx, guest(name)))(w.t)
	if slices.ContainsFunc(open, func(s op.Step) bool { return s.State == op.StatePending }) {
		return refusal.New(refusal.PendingSignature, "a step of %s waits", name)
	}
	require.Empty(w.t, open)
	return nothingPlanned
}

// stopped returns the code with which reconcile gave a wish up.
func stopped(s reconcile.Status, name string) error {
	for _, x := range s.Stopped {
		if x.Target == guest(name) {
			return refusal.New(x.Code, "%s", x.Detail)
		}
	}
	return nil
}

// dirSource watches a directory of desired state.
func (w *world) dirSource(dir string) reconcile.Source {
	w.t.Helper()
	s := must.Get(reconcile.NewDir(dir, time.Hour, w.now))(w.t)
	w.cleanup(func() { _ = s.Close() })
	return s
}
