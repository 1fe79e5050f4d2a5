package reconcile

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/test/must"
)

// blocked is a fleet in which every unsigned step goes on until the test ends, and
// the looks that probes says are probes, unless their context ends.
type blocked struct {
	*fleet
	release chan struct{}
	steps   atomic.Int64 // unsigned steps that are under way
	probes  atomic.Int64 // looks that are under way
	probe   func(op.Look) bool
}

func (b *blocked) Observe(ctx context.Context, l op.Look) (op.Observed, error) {
	if b.probe != nil && b.probe(l) {
		b.probes.Add(1)
		defer b.probes.Add(-1)
		select {
		case <-b.release:
		case <-ctx.Done():
			return op.Observed{}, ctx.Err()
		}
	}
	return b.fleet.Observe(ctx, l)
}

// newBlocked is a world over such a fleet, which works by itself once run was
// called.
func newBlocked(t *testing.T) (*world, *blocked) {
	b := &blocked{fleet: newFleet(), release: make(chan struct{})}
	w := newWorldOver(t, b)
	w.fleet = b.fleet
	b.after = func(s op.Step) error {
		if s.Op == "guest.restart" {
			b.steps.Add(1)
			<-b.release
			b.steps.Add(-1)
		}
		return nil
	}
	return w, b
}

// run lets the world work, and ends what is blocked before it stops.
func (b *blocked) run(w *world) {
	w.live()
	w.t.Cleanup(func() { close(b.release) })
}

func by(uid uint32) op.Requester { return op.Requester{Source: op.SourceAPI, UID: uid} }

func (w *world) submitBy(uid uint32, asks ...op.Ask) op.Job {
	w.t.Helper()
	return must.Get(w.gate.Submit(w.ctx, op.Submission{Requester: by(uid), Steps: asks}))(w.t)
}

// request1 returns the request of a job's first step.
func (w *world) request1(j op.Job) op.Request {
	w.t.Helper()
	return must.Get(w.gate.Request(w.ctx, op.StepID{Job: j.ID, Index: 1}))(w.t)
}

func (w *world) ended(j op.Job) {
	w.t.Helper()
	w.eventually(func() bool { return !w.job(j.ID).State().Open() })
	require.Equal(w.t, op.StateSucceeded, w.job(j.ID).State())
}

// TestSignedStepsDoNotWaitForOthersWork: 100 restarts that do not end held every
// worker, and what operators signed waited for them.
func TestSignedStepsDoNotWaitForOthersWork(t *testing.T) {
	w, b := newBlocked(t)
	const flood = 100
	for i := range flood {
		b.make(fmt.Sprintf("f%d", i), running, nil)
	}
	for _, name := range []string{"own", "early"} {
		b.make(name, stopped, nil)
	}
	early := w.submitBy(1, ask("guest.destroy", "early", nil))
	b.run(w)
	var restarts []op.Job
	for i := range flood {
		restarts = append(restarts, w.submitBy(2, ask("guest.restart", fmt.Sprintf("f%d", i), nil)))
	}
	w.eventually(func() bool { return b.steps.Load() == DefaultWorkers })

	w.approve(w.request1(early))
	w.ended(early)
	// Of a job that was signed, the benign steps before do not wait either, nor do
	// those on a target that the flood waits for.
	job := w.submitBy(1, ask("guest.start", "own", nil), ask("guest.destroy", "f99", nil))
	r := must.Get(w.gate.Request(w.ctx, op.StepID{Job: job.ID, Index: 2}))(t)
	w.approve(r)
	w.ended(job)
	require.EqualValues(t, DefaultWorkers, b.steps.Load(), "one requester has no more")
	require.False(t, b.has("f99"))

	// Another requester's unsigned step finds a worker, too.
	b.make("mine", stopped, nil)
	w.ended(w.submitBy(3, ask("guest.start", "mine", nil)))
	require.EqualValues(t, DefaultWorkers, b.steps.Load())
	dispatched := 0
	for _, j := range restarts {
		if w.job(j.ID).State() == op.StateDispatched {
			dispatched++
		}
	}
	require.Equal(t, DefaultWorkers, dispatched, "none of the flood has ended")
}

// TestKeptWorkersTakeNothingUnsigned: the workers that are kept for
// signed steps are not taken by unsigned ones of a target that has one.
func TestKeptWorkersTakeNothingUnsigned(t *testing.T) {
	w, b := newBlocked(t)
	for i := range 2 * DefaultWorkers {
		b.make(fmt.Sprintf("f%d", i), running, nil)
	}
	b.make("own", stopped, nil)
	b.run(w)
	// Each is woken as a target with a signed step is, and has none.
	for i := range 2 * DefaultWorkers {
		name := fmt.Sprintf("f%d", i)
		w.submitBy(2, ask("guest.restart", name, nil))
		w.r.WakeSigned(guestTarget(name))
	}
	w.eventually(func() bool { return b.steps.Load() == DefaultWorkers })
	own := w.submitBy(1, ask("guest.destroy", "own", nil))
	w.approve(w.request1(own))
	w.ended(own)
	require.EqualValues(t, DefaultWorkers, b.steps.Load())
}

// TestSignedStepsDoNotWaitForLooks: requests whose looks do not end kept the
// worker of their target, and with enough targets every one.
func TestSignedStepsDoNotWaitForLooks(t *testing.T) {
	w, b := newBlocked(t)
	const flood = 20
	var mine []op.Job
	for i := range flood {
		name := fmt.Sprintf("f%d", i)
		b.make(name, stopped, nil)
		w.submitBy(2, ask("guest.destroy", name, nil))
		mine = append(mine, w.submitBy(1, ask("guest.wipe", name, nil)))
	}
	var reads sync.Map // looks that a step of mine makes
	b.probe = func(l op.Look) bool { _, free := reads.Load(l.Target.Name); return l.Op != "" && !free }
	b.run(w)
	w.eventually(func() bool { return b.probes.Load() == lookers })
	for i, j := range mine {
		reads.Store(fmt.Sprintf("f%d", i), true)
		r := w.request1(j)
		w.approve(r)
		w.ended(j)
	}
	require.LessOrEqual(t, b.probes.Load(), int64(lookers))
}

// TestSharesAreBounded: below, at and above the most, and what waits is not lost.
func TestSharesAreBounded(t *testing.T) {
	s := newShares(2)
	a, b, c := guestTarget("a"), guestTarget("b"), guestTarget("c")
	require.True(t, s.enter("uid:1", a))
	require.True(t, s.enter("uid:1", b))
	require.False(t, s.enter("uid:1", c))
	require.False(t, s.enter("uid:1", c), "it waits once")
	require.True(t, s.enter("uid:2", c), "another's share is its own")
	require.Equal(t, []op.Target{c}, s.leave("uid:1"))
	require.True(t, s.enter("uid:1", c))
	require.Empty(t, s.leave("uid:1"))
	require.Empty(t, s.leave("uid:1"))
	require.Empty(t, s.leave("uid:2"))
	require.Empty(t, s.running)
	require.Empty(t, s.aside)
	require.Empty(t, s.waiting)

	require.Equal(t, "uid:7", share(op.Requester{Source: op.SourceAPI, UID: 7, Agent: "x#1"}))
	require.Equal(t, share(op.Requester{Source: op.SourceDesired, Set: "a"}), share(op.Requester{Source: op.SourceDesired, Set: "b"}))
}

// TestQueueSignedFirst: before what is urgent, until it is unmarked, also when it
// comes back by itself.
func TestQueueSignedFirst(t *testing.T) {
	c := newTime()
	q := newQueue(c.now, c.after)
	a, b := guestTarget("a"), guestTarget("b")
	q.addUrgent(b)
	q.addUrgent(a)
	q.addSigned(a)
	got, _ := q.getSigned()
	require.Equal(t, a, got)
	q.addAfter(a, time.Second)
	q.done(a)
	c.pass(time.Second)
	got, _ = q.get()
	require.Equal(t, a, got, "it is marked")
	old := q.mark(a)
	q.addSigned(a)
	q.unmark(a, old)
	require.NotZero(t, q.mark(a), "it was marked since")
	q.done(a)
	got, _ = q.get()
	require.Equal(t, a, got)
	q.unmark(a, q.mark(a))
	q.done(a)
	q.add(a)
	got, _ = q.get()
	require.Equal(t, b, got)
	q.done(b)

	// A look is ended for a signed step, and its target is not with two workers.
	q.addLook(b)
	ended := false
	got, _ = q.getLook(func() { ended = true })
	require.Equal(t, b, got)
	q.addUrgent(b)
	require.False(t, ended, "what is not signed waits")
	q.addSigned(b)
	require.True(t, ended)
	got, _ = q.get()
	require.Equal(t, a, got, "b is looked at")
	q.done(b)
	got, _ = q.getSigned()
	require.Equal(t, b, got)
}
