package reconcile

import (
	"context"
	"errors"
	"time"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver"
	"gated/internal/gate"
)

// runNext runs the next step of a target. It reports whether the target may have more work at once. A worker for signed
// steps leaves all other steps to the other workers. look says that requests that wait must be looked at again. w is the
// wish that the pass began with, or nil.
func (r *Reconciler) runNext(ctx context.Context, d driver.Driver, t op.Target, w *wish, kept, look bool) bool {
	if ctx.Err() != nil {
		return false // after the stop of the daemon no step begins
	}
	mark := r.queue.mark(t)
	turn, ok, err := r.Gate.Next(ctx, t)
	if err != nil {
		return r.later(t, "run", err)
	}
	if look && turn.Asks {
		r.lookSoon(t)
	}
	if !turn.Signed {
		r.queue.unmark(t, mark)
	}
	if ok && kept && !turn.Signed {
		r.queue.addUrgent(t)
		return false
	}
	if !ok {
		r.mu.Lock()
		if m := r.targets[t]; m != nil {
			m.held = nil // it ended, or waits for people
		}
		r.mu.Unlock()
		if turn.Wait > 0 {
			r.queue.addAfter(t, turn.Wait)
		}
		return false
	}
	id := turn.Permit.Step().ID
	r.mu.Lock()
	var wait time.Duration
	if m := r.targets[t]; m != nil {
		wait = m.hold.left(id.String(), r.Now())
	}
	r.mu.Unlock()
	if wait > 0 {
		r.queue.addAfter(t, wait)
		return false
	}
	if !turn.Signed {
		by := share(turn.By)
		if !r.shares.enter(by, t) {
			return false
		}
		defer func() {
			for _, t := range r.shares.leave(by) {
				r.queue.addUrgent(t)
			}
		}()
	}
	return r.run(ctx, d, turn, w, mark)
}

// goesOn reports whether a target may have more work after Record ended a step of it. If the gate did not wake it then,
// no step of it is open. If no wish is for it either, it has no work, and goesOn ends the mark.
func (r *Reconciler) goesOn(t op.Target, mark uint64) bool {
	r.mu.Lock()
	m := r.targets[t]
	more := r.wishes.wishes[t] != nil || m != nil && (m.woken || m.open || m.adopt || len(m.withdraw) > 0)
	r.mu.Unlock()
	if !more {
		r.queue.unmark(t, mark)
	}
	return more
}

// run executes one step and records its end. From here the daemon's stop does not cut the work off at once: half a step
// is worse than a slow stop. w is the wish that the pass began with. mark is the queue's mark of the target before the
// permit was made.
func (r *Reconciler) run(ctx context.Context, d driver.Driver, turn gate.Turn, w *wish, mark uint64) bool {
	step := turn.Permit.Step()
	var prepares driver.Preparer = d
	if turn.By.Source == op.SourceDesired { // else a set that changes often would keep the steps of others back
		prepares = wishful{d, r, w}
	}
	ctx = context.WithoutCancel(ctx)
	timed, cancel := context.WithTimeout(ctx, r.StepTimeout)
	defer cancel()
	defer context.AfterFunc(r.cut, cancel)()
	var did driver.Result
	err := driver.Safely(r.Logger, "step "+step.ID.String(), func() (err error) {
		did, err = driver.Run(timed, turn.Permit, prepares)
		return err
	})
	if err != nil {
		return r.afterError(ctx, d, step, did, err)
	}
	if did.Task == "" {
		ended, again := r.record(ctx, step, r.outcome(ctx, d, step, did, nil))
		return again && (!ended || r.goesOn(step.Target, mark))
	}
	if err := r.Gate.SetTask(ctx, step.ID, did.Task); err != nil {
		r.Logger.Error("a task's id cannot be written; after a restart it is not found again", "step", step.ID.String(), "error", err)
	}
	if now, err := r.stepOf(ctx, step.ID); err == nil {
		step = now // with the target's state at the dispatch
	}
	r.attach(step, &attached{step: step, task: did.Task})
	r.queue.addAfter(step.Target, poll)
	return false
}

// wishful prepares a step of desired state as the driver does, and refuses it if a document wishes otherwise by then. A
// driver's look may take minutes, and what was no longer wished for would run after it. The next pass takes the step back,
// unless its document cannot be read: then its wish only rests.
type wishful struct {
	driver.Preparer
	r *Reconciler
	w *wish
}

// Prepare looks at the target. A changed wish is Unavailable.
func (p wishful) Prepare(ctx context.Context, s op.Step, cleanup func(func())) (op.Observed, driver.Action, error) {
	o, act, err := p.Preparer.Prepare(ctx, s, cleanup)
	if err == nil && !p.r.wishOf(s.Target).same(p.w) {
		err = refusal.New(refusal.Unavailable, "what desired state wishes of %s changed meanwhile", s.Target)
	}
	return o, act, err
}

// wishOf returns the wish for a target, or nil.
func (r *Reconciler) wishOf(t op.Target) *wish {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.wishes.wishes[t]
}

// afterError reads in the journal whether the permit was used before Run failed. Only then did anything happen to the
// target.
func (r *Reconciler) afterError(ctx context.Context, d driver.Driver, step op.Step, did driver.Result, err error) bool {
	now, jerr := r.stepOf(ctx, step.ID)
	if jerr != nil {
		// It may be dispatched. Until the journal can be read, it counts as dispatched.
		r.attach(step, &attached{step: step, outcome: r.outcome(ctx, d, step, did, err), ended: true})
		return r.later(step.Target, "record", jerr)
	}
	switch {
	case now.State == op.StateDispatched:
		_, again := r.record(ctx, now, r.outcome(ctx, d, now, did, err))
		return again
	case now.State != op.StatePlanned && now.State != op.StateAuthorized:
		r.ended(now, r.hindered(ctx, d, now)) // Permit.Use ended it, or it waits for a signature now
		return true
	case driver.IsTransient(err) || errors.Is(err, refusal.Unavailable) || wasCutOff(err):
		r.holdBack(step, err, maxWait)
		return false
	}
	now, jerr = r.Gate.Refuse(ctx, step.ID, err)
	if jerr != nil {
		return r.later(step.Target, "record", jerr)
	}
	r.ended(now, r.hindered(ctx, d, now))
	return true
}

// hindered reports whether a step was refused before its permit was used, and a look shows what is in its way, and that it may
// go. It matters to wishes alone.
func (r *Reconciler) hindered(ctx context.Context, d driver.Driver, s op.Step) bool {
	if s.State != op.StateRefused || r.wishOf(s.Target) == nil {
		return false
	}
	o, err := observe(ctx, d, s.Look())
	return err == nil && o.Cannot != "" && !o.Never
}

func (r *Reconciler) stepOf(ctx context.Context, id op.StepID) (op.Step, error) {
	job, err := r.Gate.Job(ctx, id.Job)
	if err != nil {
		return op.Step{}, err
	}
	for _, s := range job.Steps {
		if s.ID == id {
			return s, nil
		}
	}
	return op.Step{}, refusal.New(refusal.UnknownTarget, "there is no step %s", id)
}

// outcome looks at the target again and says how a dispatched step ended: as the driver says or, if the driver does not
// know, as the target shows.
func (r *Reconciler) outcome(ctx context.Context, d driver.Driver, step op.Step, did driver.Result, err error) gate.Outcome {
	after, lookErr := observe(ctx, d, step.Afterwards())
	lost := driver.IsUnknown(err) || errors.Is(err, driver.ErrPanic) || wasCutOff(err)
	switch {
	case lost && lookErr != nil:
		return gate.Outcome{Err: err, Unknown: true, Output: did.Output}
	case lost:
		out := Resolve(step, after)
		out.Output = did.Output
		if out.Unknown {
			out.Detail = err.Error() + "; look at the target, then ask again"
		}
		return out
	}
	out := gate.Outcome{Err: err, Transient: driver.IsTransient(err), Detail: did.Detail, Output: did.Output}
	if lookErr == nil {
		out.After = &after
	}
	return out
}

// wasCutOff reports whether a driver says that its context ended: the step took too long, or the daemon stopped and
// waited long enough.
func wasCutOff(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

// record ends a dispatched step in the journal. If that cannot be written now, it is written later. Until then the step
// is dispatched, and nothing else of its target runs. again says that the target may have more work at once. ended says
// that the gate took the end, and woke the target if a step of it is open.
func (r *Reconciler) record(ctx context.Context, step op.Step, out gate.Outcome) (ended, again bool) {
	now, err := r.Gate.Record(ctx, step.ID, out)
	if errors.Is(err, refusal.Conflict) || errors.Is(err, refusal.UnknownTarget) {
		// It was not dispatched, or another call recorded its end: the journal is right.
		r.attach(step, nil)
		r.Logger.Warn("a step is not dispatched any more", "step", step.ID.String(), "error", err)
		return false, true
	}
	if err != nil {
		r.attach(step, &attached{step: step, outcome: out, ended: true})
		return false, r.later(step.Target, "record", err)
	}
	r.attach(step, nil)
	if now.State == op.StatePlanned {
		r.holdBack(now, out.Err, maxDelay)
		return false, false
	}
	r.ended(now, false)
	return true, true
}

// holdBack keeps a step from running again before its back-off has passed, which is at most longest.
func (r *Reconciler) holdBack(step op.Step, err error, longest time.Duration) {
	r.Logger.Info("a step will run again later", "step", step.ID.String(), "op", step.Op, "error", err)
	r.mu.Lock()
	m := r.target(step.Target)
	if m.hold == nil {
		m.hold = &retry{}
	}
	now := r.Now()
	d := min(m.hold.again(step.ID.String(), now, r.Random()), longest)
	m.hold.until = now.Add(d)
	m.heldBack(step.ID, err, m.hold.until)
	r.mu.Unlock()
	r.queue.addAfter(step.Target, d)
}

// ended remembers what a step's end means for its wish. The same step is not asked for again at once. After a failure,
// it is not asked for before the wish or the target changes. A step that was stale did not fail: something else was as it
// should not be, perhaps for a moment, and the target may be as before. hindered says that something is in its way that may go.
func (r *Reconciler) ended(s op.Step, hindered bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.target(s.Target)
	m.hold, m.held = nil, nil
	w := r.wishes.wishes[s.Target]
	if w == nil || w.conflict() || s.State.Open() {
		return
	}
	key := askKey(op.Ask{Op: s.Op, Params: s.Params})
	if m.retry == nil {
		m.retry = &retry{}
	}
	m.retry.again(key, r.Now(), r.Random())
	if s.Code == refusal.StaleTarget {
		return
	}
	switch s.State {
	case op.StateFailed, op.StateInterrupted, op.StateRefused, op.StateRejected:
		r.stopAt(m, stop{wish: wishKey(w.guest), ask: key, incarnation: s.Incarnation, fingerprint: s.Fingerprint,
			op: s.Op, code: s.Code, detail: s.Detail}, hindered)
	}
}

// maxReason is how many bytes are kept of the reason why a step waits.
const maxReason = 512

// held says why a step of a target did not run in its turn, and when it is tried again. One step of a target has its
// turn at a time, so one held is enough.
type held struct {
	step op.StepID
	why  string
	next time.Time
}

// heldBack remembers why and when a step is tried again. The caller holds r.mu.
func (m *target) heldBack(id op.StepID, err error, next time.Time) {
	why := err.Error()
	var r *refusal.Refusal
	if errors.As(err, &r) {
		why = r.Detail
		if r.Hint != "" {
			why += "; " + r.Hint
		}
	}
	if len(why) > maxReason {
		why = why[:maxReason] + "…"
	}
	m.held = &held{step: id, why: op.Shown(why), next: next}
}

// HeldBack says why a step that may run does not, and when it is tried again. It returns "" if this process knows no
// reason: after a restart, it knows none before the first try.
func (r *Reconciler) HeldBack(s op.Step) (why string, next time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.targets[s.Target]
	if m == nil || m.held == nil || m.held.step != s.ID {
		return "", time.Time{}
	}
	return m.held.why, m.held.next
}
