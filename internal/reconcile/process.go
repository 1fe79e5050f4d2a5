package reconcile

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/wire/desired"
)

// poll is how long to wait before the next question to a back end about its task.
const poll = time.Second

// lookers is how many workers look again at waiting requests. No step waits for them.
const lookers = 2

// begin starts the workers.
func (r *Reconciler) begin(ctx context.Context, wg *sync.WaitGroup) {
	for range r.Workers {
		wg.Go(func() { r.work(ctx, r.queue.get, false) })
		wg.Go(func() { r.work(ctx, r.queue.getSigned, true) })
	}
	wg.Go(func() { r.work(ctx, r.queue.get, false) }) // a worker that one requester cannot have as well
	for range lookers {
		wg.Go(func() { r.lookOn(ctx) })
	}
}

// work takes targets from the queue until it is closed. kept says that this worker is for signed steps alone.
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

// lookOn looks again at waiting requests until the queue is closed.
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

// pass is a pass over the waiting requests of a target.
type pass struct {
	after op.StepID
	again bool // begin another pass after this one
}

// lookSoon starts a pass over the requests that wait on a target. A pass under way ends first: otherwise endless wakes
// would keep it at its beginning.
func (r *Reconciler) lookSoon(t op.Target) {
	r.mu.Lock()
	if p := r.passes[t]; p != nil {
		p.again = true
	}
	r.mu.Unlock()
	r.queue.addLook(t)
}

// lookAgain looks again at one request that waits on a target, and queues the target for the next one. If a signed step
// ended the look, it is made again.
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

// process does the next thing for a target. If a step is under way, process ends it. Otherwise it brings the journal to
// the wish, and runs the first step that may run. After work it queues the target again if there may be more. kept says
// that it may run only a signed step.
func (r *Reconciler) process(ctx context.Context, t op.Target, kept bool) {
	defer r.tidy(t)
	d, ok := r.Drivers[t.Kind]
	if !ok || r.waitsForRoom(t) {
		return
	}
	if done := r.attend(ctx, d, t); !done {
		return
	}
	w := r.wishOf(t)
	look, ok := r.withdraw(ctx, t)
	if !ok {
		return
	}
	if known := r.pursue(ctx, d, t); !known {
		if look {
			r.lookSoon(t)
		}
		return
	}
	if r.runNext(ctx, d, t, w, kept, look) {
		r.queue.add(t)
	}
}

// waitsForRoom records that a target is worked on. It reports whether that has no use: no wake came, no step is open,
// and a set with all the requests it may have wants it destroyed. Without this check, a hub that asks for 100,000
// destroys would cost a look for each (P11).
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

// isFull reports whether a wish is for a destroy that waits for a signature, by a set with all the requests it may
// have. The caller holds r.mu.
func (r *Reconciler) isFull(w *wish) bool {
	return !w.conflict() && w.guest.State == desired.Absent && r.Now().Before(r.limited[w.set()])
}

// tidy forgets a target if nothing of it must be remembered.
func (r *Reconciler) tidy(t op.Target) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if m := r.targets[t]; m != nil && m.empty() {
		delete(r.targets, t)
	}
}

// withdraw takes back what sets no longer wish for, before anything runs: an authorized step that is no longer wanted
// is cancelled, not dispatched. ok says that the journal took it. look says that waiting requests must be looked at
// again.
func (r *Reconciler) withdraw(ctx context.Context, t op.Target) (look, ok bool) {
	r.mu.Lock()
	m := r.targets[t]
	sets := map[string]bool{}
	var open bool
	if m != nil {
		for set := range m.withdraw {
			sets[set] = true
		}
		open, look = m.open, m.look || m.open
		m.open, m.look = false, false
	}
	r.mu.Unlock()
	if open {
		if err := r.leftBehind(ctx, t, sets); err != nil {
			return false, r.later(t, "withdraw", err)
		}
	}
	for set := range sets {
		if err := r.Gate.Withdraw(ctx, set, t, nil); err != nil {
			return false, r.later(t, "withdraw", err)
		}
		r.mu.Lock()
		delete(r.target(t).withdraw, set)
		r.mu.Unlock()
	}
	return look, true
}

// leftBehind adds the sets that have open steps on a target but no wish for it. These steps are from before a restart,
// and this process does not remember them.
func (r *Reconciler) leftBehind(ctx context.Context, t op.Target, sets map[string]bool) error {
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
			if by.Source == op.SourceDesired && r.wishesNot(by.Set, t) {
				sets[by.Set] = true
			}
		}
	}
	return nil
}

// wishesNot reports whether it is known that a set has no wish for a target.
func (r *Reconciler) wishesNot(set string, t op.Target) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.wishes.knows(set) && !r.wishes.wants(set, t)
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
	m.open = true // then the next round finds the withdrawal again
	r.mu.Unlock()
	r.queue.addAfter(t, d)
	return false
}

// recovering is how many targets are looked at side by side at the start, so that their ends share fsyncs.
const recovering = 16

// Recover ends what was under way when the daemon stopped. Nothing may run before it returns. If a target cannot be
// looked at, its step stays dispatched: no other step of it runs, and Run tries again. The error is the journal's.
func (r *Reconciler) Recover(ctx context.Context) error {
	steps, err := r.Gate.Dispatched(ctx)
	if err != nil {
		return fmt.Errorf("read what was under way: %w", err)
	}
	work := make(chan op.Step)
	var wg sync.WaitGroup
	for range min(recovering, len(steps)) {
		wg.Go(func() {
			for s := range work {
				r.attend(ctx, r.Drivers[s.Target.Kind], s.Target)
			}
		})
	}
	for _, s := range steps {
		if r.Drivers[s.Target.Kind] == nil {
			r.Logger.Error("no driver can say how a step ended", "step", s.ID.String(), "target", s.Target.String())
			continue
		}
		r.attach(s, &attached{step: s, task: s.Task, elsewhere: r.Moved})
		work <- s
	}
	close(work)
	wg.Wait()
	return nil
}

// stop is a wish that ended in a way that another try would not change. It is not asked for again until the wish or the
// target changes, or a look shows that what was in its way has gone.
type stop struct {
	wish, ask   string
	incarnation op.Incarnation
	fingerprint op.Fingerprint
	op          string
	code        refusal.Code
	detail      string
	clears      *retry // when the next look asks whether the way is clear; nil if nothing is in the way that could go
}

// wishKey identifies all that a document wishes of a guest.
func wishKey(g *desired.Guest) string { return g.State + " " + string(g.Fields.Canonical()) }

// askKey identifies a step to ask for.
func askKey(a op.Ask) string { return a.Op + " " + string(a.Params.Canonical()) }

func (m *target) isStopped(g *desired.Guest, a op.Ask, o op.Observed, now time.Time) bool {
	for i := range m.stopped {
		s := &m.stopped[i]
		if s.incarnation == o.Incarnation && sameFingerprint(s.fingerprint, o) && s.ask == askKey(a) && s.wish == wishKey(g) {
			return s.clears == nil || s.clears.left(s.ask, now) > 0
		}
	}
	return false
}

// sameFingerprint compares with what was seen when the step was planned. An absent target always matches: it has no
// state that could differ, whatever digest the gate or driver gives to nothing.
func sameFingerprint(f op.Fingerprint, o op.Observed) bool { return !o.Present || f == o.Fingerprint }

// stopAt remembers that an ask ended. It replaces what it remembered of the same ask. hindered says that something is in the way
// that may go: then the wait until the next look doubles. The caller holds r.mu.
func (r *Reconciler) stopAt(m *target, s stop, hindered bool) {
	i := m.stopOf(s.ask)
	if i < 0 {
		i, m.stopped = len(m.stopped), append(m.stopped, stop{})
	}
	if hindered {
		s.clears = cmp.Or(m.stopped[i].clears, &retry{})
		s.clears.again(s.ask, r.Now(), r.Random())
	}
	m.stopped[i] = s
}

// stopOf returns the index of the stop of an ask, or -1.
func (m *target) stopOf(ask string) int {
	return slices.IndexFunc(m.stopped, func(s stop) bool { return s.ask == ask })
}

// converged forgets the stops of a target that is as wished. The back-off stays for a while, because a guest whose
// process ends at once looks converged right after each start.
func (m *target) converged(now time.Time) {
	m.stopped = nil
	if m.retry != nil && now.Sub(m.retry.until) > calm {
		m.retry = nil
	}
}
