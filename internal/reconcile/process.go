package reconcile

import (
	"context"
	"sync"
	"time"

	"gated/internal/desired"
	"gated/internal/op"
)

// poll is how long to wait before a back end is asked about its task again.
const poll = time.Second

// lookers is how many targets have their waiting requests looked at again side by
// side. No step waits for that.
const lookers = 2

// begin starts the workers.
func (r *Reconciler) begin(ctx context.Context, wg *sync.WaitGroup) {
	for range r.Workers {
		wg.Go(func() { r.work(ctx, r.queue.get, false) })
		wg.Go(func() { r.work(ctx, r.queue.getSigned, true) })
	}
	wg.Go(func() { r.work(ctx, r.queue.get, false) }) // one requester cannot have it as well
	for range lookers {
		wg.Go(func() { r.lookOn(ctx) })
	}
}

// work takes targets from the queue until it is closed. kept says that the worker
// is kept for what operators signed.
func (r *Reconciler) work(ctx context.Context, get func() (op.Target, bool), kept bool) {
	for {
		t, ok := get()
		if !ok {
			return
		}
		r.process(ctx, t, kept)
		r.queue.done(t)
	}
}

// lookOn looks at targets again until the queue is closed.
func (r *Reconciler) lookOn(ctx context.Context) {
	for {
		looking, end := context.WithCancel(ctx)
		t, ok := r.queue.getLook(end)
		if ok {
			r.lookAgain(looking, t)
			r.queue.done(t)
		}
		end()
		if !ok {
			return
		}
	}
}

// pass is how far the requests of a target have been looked at again.
type pass struct {
	after op.StepID
	again bool // there is reason to begin once more when it has ended
}

// lookSoon has the requests that wait on a target looked at again. A pass that is
// under way goes on to its end first: else wakes without end would keep it at its
// beginning.
func (r *Reconciler) lookSoon(t op.Target) {
	r.mu.Lock()
	if p := r.passes[t]; p != nil {
		p.again = true
	}
	r.mu.Unlock()
	r.queue.addLook(t)
}

// lookAgain looks again at one of the requests that wait on a target, and queues
// the target for the next one. A look that was ended for a signed step is made
// again.
func (r *Reconciler) lookAgain(ctx context.Context, t op.Target) {
	r.mu.Lock()
	p := r.passes[t]
	if p == nil {
		p = &pass{}
		r.passes[t] = p
	}
	after := p.after
	r.mu.Unlock()
	next, more, err := r.Gate.RefreshAfter(ctx, t, after)
	if ctx.Err() != nil {
		r.queue.addLook(t)
		return
	}
	if err != nil {
		r.Logger.Warn("waiting requests cannot be looked at again", "target", t.String(), "error", err)
	}
	r.mu.Lock()
	switch {
	case more:
		p.after = next
	case p.again:
		*p = pass{}
		more = true
	default:
		delete(r.passes, t)
	}
	r.mu.Unlock()
	if more {
		r.queue.addLook(t)
	}
}

// process does the one next thing for a target: it ends what is under way, or
// brings the journal to what is wished for and then runs the first step that
// may run. When it did something, the target is queued again. kept says that it
// is for a signed step alone.
func (r *Reconciler) process(ctx context.Context, t op.Target, kept bool) {
	defer r.tidy(t)
	d, ok := r.Drivers[t.Kind]
	if !ok || r.waitsForRoom(t) {
		return
	}
	if done := r.attend(ctx, d, t); !done {
		return
	}
	if !r.withdraw(ctx, t) {
		return
	}
	if known := r.pursue(ctx, d, t); !known {
		return
	}
	if r.runNext(ctx, d, t, kept) {
		r.queue.add(t)
	}
}

// waitsForRoom takes note that a target is worked on, and reports whether that
// would be of no use: nobody woke it, nothing of it is open, and it is to be
// destroyed by a set that has all the requests it may have. A hub that asks for
// 100,000 destroys costs a look at memory for each (P11).
func (r *Reconciler) waitsForRoom(t op.Target) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.targets[t]
	busy := m != nil && (m.woken || m.adopt || m.open || m.attached != nil || len(m.withdraw) > 0)
	if m != nil {
		m.look = m.look || m.woken
		m.woken, m.adopt = false, false
	}
	w := r.wishes.wishes[t]
	return !busy && w != nil && r.isFull(w)
}

// isFull reports whether a wish is for a destroy, which would wait for a
// signature, of a set that has all the requests it may have; r.mu is held.
func (r *Reconciler) isFull(w *wish) bool {
	return !w.conflict() && w.guest.State == desired.Absent && r.Now().Before(r.limited[w.set()])
}

// tidy forgets a target of which there is nothing to remember.
func (r *Reconciler) tidy(t op.Target) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if m := r.targets[t]; m != nil && m.empty() {
		delete(r.targets, t)
	}
}

// withdraw takes back what sets no longer wish for, before anything runs: what
// is authorized and no longer wanted is cancelled, not dispatched. It reports
// whether the journal took it.
func (r *Reconciler) withdraw(ctx context.Context, t op.Target) bool {
	r.mu.Lock()
	m, ix := r.targets[t], r.wishes
	sets := map[string]bool{}
	var open, look bool
	if m != nil {
		for set := range m.withdraw {
			sets[set] = true
		}
		open, look = m.open, m.look || m.open
		m.open, m.look = false, false
	}
	r.mu.Unlock()
	if open {
		if err := r.leftBehind(ctx, ix, t, sets); err != nil {
			return r.later(t, "withdraw", err)
		}
	}
	for set := range sets {
		if err := r.Gate.Withdraw(ctx, set, t, nil); err != nil {
			return r.later(t, "withdraw", err)
		}
		r.mu.Lock()
		delete(r.target(t).withdraw, set)
		r.mu.Unlock()
	}
	if look {
		r.lookSoon(t)
	}
	return true
}

// leftBehind adds the sets that have open steps on a target and wish nothing of
// it: from before a restart, which this process does not remember.
func (r *Reconciler) leftBehind(ctx context.Context, ix *index, t op.Target, sets map[string]bool) error {
	steps, err := r.Gate.Open(ctx, t)
	if err != nil {
		return err
	}
	for _, s := range steps {
		job, err := r.Gate.Job(ctx, s.ID.Job)
		if err != nil {
			return err
		}
		for _, by := range job.Requesters {
			if by.Source == op.SourceDesired && ix.knows(by.Set) && !ix.wants(by.Set, t) {
				sets[by.Set] = true
			}
		}
	}
	return nil
}

// later queues a target again after a back-off, and returns false.
func (r *Reconciler) later(t op.Target, what string, err error) bool {
	r.Logger.Warn("a target is tried again later", "target", t.String(), "what", what, "error", err)
	r.mu.Lock()
	m := r.target(t)
	if m.retry == nil {
		m.retry = &retry{}
	}
	d := m.retry.again(what, r.Now(), r.Random())
	m.open = true // what is withdrawn is found again
	r.mu.Unlock()
	r.queue.addAfter(t, d)
	return false
}
