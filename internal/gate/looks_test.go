package gate_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

// probing is a back end of commands. If release is set, its probes do not end before
// it.
type probing struct {
	release chan struct{}
	now     atomic.Int64 // probes that run now
	begun   atomic.Int64
}

func (p *probing) Observe(ctx context.Context, l op.Look) (op.Observed, error) {
	p.begun.Add(1)
	p.now.Add(1)
	defer p.now.Add(-1)
	if p.release != nil {
		select {
		case <-p.release:
		case <-ctx.Done():
			return op.Observed{}, ctx.Err()
		}
	}
	return op.Observed{Target: l.Target, Present: true, Incarnation: "one", Fingerprint: op.FingerprintOf(l.Params.Canonical())}, nil
}

func newProbing(t *testing.T) (*world, *probing) {
	p := &probing{}
	return newWorldOn(t, p), p
}

// How long a test waits for what must come.
const (
	waitFor = 20 * time.Second
	tick    = time.Millisecond
)

func runs(i int) op.Ask {
	return op.Ask{Op: op.Run, Target: op.Target{Kind: op.KindCommand, Name: "purge"}, Params: op.Params{"n": fmt.Sprint(i)}}
}

func (w *world) submitFor(uid uint32, asks ...op.Ask) (op.Job, error) {
	return w.gate.Submit(w.ctx, op.Submission{Requester: op.Requester{Source: op.SourceAPI, UID: uid}, Steps: asks, Reason: "test"})
}

// TestLimitsComeBeforeLooks: below, at and above each limit. The gate does not look
// for a refused step.
func TestLimitsComeBeforeLooks(t *testing.T) {
	t.Run("requests of a requester", func(t *testing.T) {
		w, p := newProbing(t)
		rules := w.gate.Policy()
		rules.OpenPerSource = 3
		require.NoError(t, w.gate.Reload(w.ctx, nil, rules))
		for i := range 3 {
			must.Get(w.submitFor(1, runs(i)))(t)
		}
		before := p.begun.Load()
		must.Fail(w.submitFor(1, runs(3)))(t, refusal.OverLimit)
		must.Fail(w.submitFor(1, runs(4), runs(5)))(t, refusal.OverLimit)
		require.Equal(t, before, p.begun.Load(), "a probe ran before the limit was looked at")
		j := must.Get(w.submitFor(1, runs(2)))(t, "what waits already takes no room")
		require.EqualValues(t, 3, j.ID)
		must.Get(w.submitFor(2, runs(3)))(t, "the limit is per requester")
	})
	t.Run("steps of a target", func(t *testing.T) {
		w, p := newProbing(t)
		for i := range 96 {
			must.Get(w.submitFor(uint32(i), runs(i)))(t)
		}
		before := p.begun.Load()
		must.Fail(w.submitFor(200, runs(128)))(t, refusal.OverLimit)
		require.Equal(t, before, p.begun.Load())
	})
	t.Run("steps of one job on a target", func(t *testing.T) {
		w, p := newProbing(t)
		for i := range 95 {
			must.Get(w.submitFor(uint32(i), runs(i)))(t)
		}
		before := p.begun.Load()
		must.Fail(w.submitFor(200, runs(200), runs(201)))(t, refusal.OverLimit)
		require.Equal(t, before+1, p.begun.Load(), "there was room for the first alone")
	})
}

// TestLooksOfAUIDAreBounded: 200 submits of one uid once started 200 probes. Now 8
// run, and another uid's submit and an approval wait for none of them.
func TestLooksOfAUIDAreBounded(t *testing.T) {
	w, p := newProbing(t)
	mine := must.Get(w.submitFor(2, runs(1000)))(t)
	p.release = make(chan struct{})
	rules := w.gate.Policy()
	rules.OpenPerSource = 20
	require.NoError(t, w.gate.Reload(w.ctx, nil, rules))
	var flood sync.WaitGroup
	var admitted, refused atomic.Int64
	begun := p.begun.Load()
	for i := range 200 {
		flood.Go(func() {
			_, err := w.submitFor(1, runs(i))
			switch {
			case err == nil:
				admitted.Add(1)
			case refusal.CodeOf(err) == refusal.OverLimit:
				refused.Add(1)
			}
		})
	}
	require.Eventually(t, func() bool { return p.now.Load() == 8 }, waitFor, tick)

	approved := make(chan error, 1)
	r := must.Get(w.gate.Request(w.ctx, op.StepID{Job: mine.ID, Index: 1}))(t)
	go func() { _, err := w.approve(r); approved <- err }()
	require.Eventually(t, func() bool { return p.now.Load() == 9 }, waitFor, tick, "an approval needs no turn")
	other := make(chan error, 1)
	go func() { _, err := w.submitFor(3, runs(3000)); other <- err }()
	require.Eventually(t, func() bool { return p.now.Load() == 10 }, waitFor, tick, "another uid has turns of its own")

	close(p.release)
	require.NoError(t, <-approved)
	require.NoError(t, <-other)
	flood.Wait()
	require.EqualValues(t, 200, admitted.Load()+refused.Load())
	require.LessOrEqual(t, admitted.Load(), int64(20))
	require.GreaterOrEqual(t, admitted.Load(), int64(8))
	require.LessOrEqual(t, p.begun.Load()-begun, int64(20+8+2), "those that waited for a turn met the limit first")
}

// TestACallerGivesUpItsTurn: a caller that gives up gets the reason. Classify
// needs a turn too.
func TestACallerGivesUpItsTurn(t *testing.T) {
	w, p := newProbing(t)
	p.release = make(chan struct{})
	var flood sync.WaitGroup
	for i := range 8 {
		flood.Go(func() { _, _ = w.submitFor(1, runs(i)) })
	}
	require.Eventually(t, func() bool { return p.now.Load() == 8 }, waitFor, tick)
	gone, leave := context.WithCancel(w.ctx)
	leave()
	by := op.Requester{Source: op.SourceAPI, UID: 1}
	must.Fail(w.gate.Submit(gone, op.Submission{Requester: by, Steps: []op.Ask{runs(9)}}))(t, refusal.OverLimit)
	_, _, err := w.gate.Explain(gone, by, runs(9))
	require.ErrorIs(t, err, refusal.OverLimit)
	require.EqualValues(t, 8, p.begun.Load())
	close(p.release)
	flood.Wait()
}

// TestSignedTargets are those of the steps that are still to be done, each once.
func TestSignedTargets(t *testing.T) {
	w := newWorld(t, "a", "b")
	j := w.mustSubmit(ask("guest.start", "b"), ask("guest.stop", "a"), ask("guest.destroy", "a"))
	require.Empty(t, must.Get(w.gate.SignedTargets(w.ctx))(t))
	r := must.Get(w.gate.Request(w.ctx, j.Steps[2].ID))(t)
	must.Get(w.approve(r))(t)
	a, b := op.Target{Kind: "guest", Name: "a"}, op.Target{Kind: "guest", Name: "b"}
	require.Equal(t, []op.Target{b, a}, must.Get(w.gate.SignedTargets(w.ctx))(t))
	require.NoError(t, w.execute(j.Steps[0].ID))
	require.Equal(t, []op.Target{a}, must.Get(w.gate.SignedTargets(w.ctx))(t))
}
