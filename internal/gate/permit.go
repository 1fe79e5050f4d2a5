package gate

import (
	"cmp"
	"context"
	"errors"
	"sync/atomic"

	"gated/internal/base/crashpoint"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/log/audit"
	"gated/internal/log/journal"
)

// Permit is the right to run one step once. Only a gate makes one that works;
// the zero permit is refused.
type Permit struct{ core *permitCore }

type permitCore struct {
	gate *Gate
	step op.Step
	used atomic.Bool // set by the first use

	dispatched atomic.Bool // set if the dispatch was committed
}

// Permit returns the permit for a step that may run now. The step is benign and
// planned, or it is authorized. All steps before it in its job are done, and every
// destructive step of the job is authorized. Otherwise Permit refuses with Conflict.
func (g *Gate) Permit(ctx context.Context, id op.StepID) (Permit, error) {
	var s op.Step
	err := g.view(ctx, func(tx *store.Tx) error {
		steps, err := journal.StepsOf(tx, id.Job)
		if err != nil {
			return err
		}
		s, err = ready(steps, id)
		return err
	})
	if err != nil {
		return Permit{}, err
	}
	return Permit{&permitCore{gate: g, step: s}}, nil
}

// Step returns the step that the permit is for, or the zero step for the zero
// permit.
func (p Permit) Step() op.Step {
	if p.core == nil {
		return op.Step{}
	}
	return p.core.step
}

// Use compares the step with the driver's look and commits the dispatch. The driver
// acts only if the error is nil. A permit works once; the zero permit never works.
func (p Permit) Use(ctx context.Context, now op.Observed) error {
	if p.core == nil {
		return refusal.New(refusal.NotAllowed, "there is no permit for this")
	}
	if p.core.used.Swap(true) {
		return refusal.New(refusal.Conflict, "the permit for %s was used already", p.core.step.ID)
	}
	err := p.core.gate.dispatch(ctx, p.core.step.ID, completed(now))
	p.core.dispatched.Store(err == nil)
	return err
}

// ready returns the step id if it may run now. steps are all steps of its job.
func ready(steps []op.Step, id op.StepID) (op.Step, error) {
	var s op.Step
	for _, x := range steps {
		if x.ID == id {
			s = x
		}
	}
	if s.ID != id {
		return s, refusal.New(refusal.UnknownTarget, "there is no step %s", id)
	}
	if s.State != op.StatePlanned && s.State != op.StateAuthorized {
		return s, refusal.New(refusal.Conflict, "step %s is %s", id, s.State).About(id, s.State)
	}
	for _, x := range steps {
		// A compensation that waits for an operator does not delay other compensations.
		asks := s.Undoes != 0 && x.Undoes != 0 && x.State == op.StatePending
		if x.ID.Index < id.Index && x.State.Open() && !asks {
			return s, refusal.New(refusal.Conflict, "step %s waits for %s", id, x.ID)
		}
		if s.Undoes == 0 && fellThrough(x) {
			return s, refusal.New(refusal.Conflict, "step %s does not run: %s of its job is %s", id, x.ID, x.State)
		}
		waits := x.Verdict.Class == op.Destructive && x.Undoes == 0 && (x.State == op.StatePending || x.State == op.StatePlanned)
		if waits && s.Undoes == 0 {
			return s, refusal.New(refusal.Conflict, "step %s waits until %s is authorized", id, x.ID)
		}
	}
	return s, nil
}

// heldUp reports which authorized step of the job still waits for its delay. Until
// then no step of the job runs, because an operator can still stop a part of it.
func (g *Gate) heldUp(tx *store.Tx, steps []op.Step, s op.Step) (by op.StepID, held bool, err error) {
	for _, x := range steps {
		if s.Undoes != 0 || x.ID == s.ID {
			continue
		}
		if held, err := g.holds(tx, x); err != nil || held {
			return x.ID, held, err
		}
	}
	return by, false, nil
}

// fellThrough reports whether a step, which is no compensation, ended without
// success.
func fellThrough(s op.Step) bool {
	return s.Undoes == 0 && !s.State.Open() && s.State != op.StateSucceeded
}

// ended says that the dispatching transaction ended the step, or asked the operators
// instead. The transaction commits, and the driver gets the refusal.
type ended struct{ refusal *refusal.Refusal }

// dispatch is the compare-and-set that lets a step run.
func (g *Gate) dispatch(ctx context.Context, id op.StepID, now op.Observed) error {
	by := op.Requester{Source: op.SourceGate}
	var end ended
	var steps []op.Step
	if err := g.held(); err != nil {
		return err
	}
	if err := g.roomFor(ctx, id); err != nil {
		return err
	}
	err := g.decide(ctx, by, audit.Entry{Job: id.Job.String(), Step: id.String()}, func(tx *store.Tx) error {
		end = ended{}
		var err error
		if steps, err = journal.StepsOf(tx, id.Job); err != nil {
			return err
		}
		s, err := ready(steps, id)
		if err != nil {
			return err
		}
		if by, held, err := g.heldUp(tx, steps, s); err != nil {
			return err
		} else if held {
			return refusal.New(refusal.Unavailable, "step %s waits until %s may run", s.ID, by)
		}
		if err := g.alone(tx, s, now); err != nil {
			return err
		}
		if wait, waits, err := g.waitsFor(tx, s); err != nil {
			return err
		} else if waits {
			return refusal.New(refusal.Unavailable, "step %s: %s", s.ID, wait.Why())
		}
		left, err := keptFrom(tx, steps, s, now)
		switch {
		case err != nil:
			return err
		case left != nil:
			end, err = g.end(tx, s, audit.Superseded, left)
		case s.State == op.StateAuthorized:
			end, err = g.dispatchSigned(tx, s, now)
		default:
			end, err = g.dispatchBenign(tx, s, now)
		}
		crashpoint.Here(crashpoint.DispatchWritten)
		return err
	})
	if err != nil {
		return err
	}
	crashpoint.Here(crashpoint.DispatchKept)
	if end.refusal != nil {
		g.wakeJob(ctx, id.Job)
		return end.refusal
	}
	return g.held() // the commit may have taken long
}

// alone refuses a look at another target. It also refuses a step while another step
// of the target runs, because the target changes under the look then.
func (g *Gate) alone(tx *store.Tx, s op.Step, now op.Observed) error {
	if err := identified(now, s.Target); err != nil {
		return err
	}
	busy, err := journal.Busy(tx, s.Target)
	if err != nil {
		return err
	}
	if busy {
		return refusal.New(refusal.Unavailable, "another step on %s is under way", s.Target).
			WithHint("it is tried again when that has ended")
	}
	return nil
}

// dispatchSigned checks an authorized step once more: time, trust, policy, the
// signed payload and the target. If a check fails, the nonce stays spent.
func (g *Gate) dispatchSigned(tx *store.Tx, s op.Step, now op.Observed) (ended, error) {
	inForce := g.rules.Load()
	moment := g.clock.Now()
	if !moment.Trusted {
		return ended{}, clockDoubted(moment)
	}
	r, err := journal.RequestOf(tx, s)
	if err != nil {
		return ended{}, err
	}
	if err := inForce.trust.Blocked(); err != nil {
		return ended{}, err // it waits
	}
	need, err := inForce.requirement(r, moment.Now)
	if err != nil {
		return g.end(tx, s, audit.Refused, refusal.As(err))
	}
	if moment.Now.After(expiry(need, r).Add(Skew)) {
		return g.end(tx, s, audit.Expired, refusal.New(refusal.Expired, "the approval of %s expired before it ran", s.ID))
	}
	if err := delayed(need, r, moment.Now); err != nil {
		return ended{}, err // it waits
	}
	p, err := op.DecodePayload(r.Payload)
	if err != nil || !g.binds(p, s) {
		return g.end(tx, s, audit.Refused,
			refusal.New(refusal.BindingMismatch, "what was signed for %s is not what would run", s.ID).At(refusal.StageBinding))
	}
	if refused := stillCounted(inForce, need, r, moment.Now); refused != nil {
		return g.end(tx, s, audit.Refused, refused)
	}
	if err := stale(s, now); err != nil {
		return g.end(tx, s, audit.Refused, refusal.As(err))
	}
	// A signature does not allow a step that the present configuration refuses.
	made, err := journal.ReadProvenance(tx, now.Incarnation)
	if err != nil {
		return ended{}, err
	}
	var refused *refusal.Refusal
	if _, err := g.classifyMade(tx, op.Requester{}, s, now, made); errors.As(err, &refused) {
		return g.end(tx, s, audit.Refused, refused)
	} else if err != nil {
		return ended{}, err
	}
	return g.run(tx, s, now, use{asking: r.Requesters, made: made})
}

// dispatchBenign classifies a planned step again on the driver's look. If the step
// is destructive now, it asks for a signature instead of running.
func (g *Gate) dispatchBenign(tx *store.Tx, s op.Step, now op.Observed) (ended, error) {
	spec, err := op.Lookup(s.Op)
	if err != nil {
		return ended{}, err
	}
	if err := cmp.Or(applies(spec, s, now), now.Hindrance()); err != nil {
		return g.end(tx, s, audit.Refused, refusal.As(err))
	}
	if refused, err := g.sameIncarnation(tx, s, spec, now); err != nil || refused != nil {
		if err != nil {
			return ended{}, err
		}
		return g.end(tx, s, audit.Refused, refused)
	}
	asking, err := g.requesters(tx, s)
	if err != nil {
		return ended{}, err
	}
	made, err := journal.ReadProvenance(tx, now.Incarnation)
	if err != nil {
		return ended{}, err
	}
	planned, who := s, asking[0]
	s.Incarnation, s.Fingerprint = now.Incarnation, now.Fingerprint
	s.Verdict, err = g.classifyMade(tx, who, s, now, made)
	var refused *refusal.Refusal
	if errors.As(err, &refused) {
		return g.end(tx, planned, audit.Refused, refused)
	}
	if err != nil {
		return ended{}, err
	}
	if err = g.snapshotFits(tx, who, s, now); err == nil {
		err = g.mayAskNow(tx, s)
	}
	if errors.As(err, &refused) {
		return g.end(tx, planned, audit.Refused, refused)
	}
	if err != nil {
		return ended{}, err
	}
	same := s.Incarnation == planned.Incarnation && s.Fingerprint == planned.Fingerprint && s.Verdict == planned.Verdict
	if !same {
		if err := journal.Rebind(tx, s); err != nil {
			return ended{}, err
		}
	}
	if s.Verdict.Class == op.Destructive {
		return g.askInstead(tx, s, spec, now)
	}
	return g.run(tx, s, now, use{asking: asking, made: made})
}

// sameIncarnation refuses a target that is not the one that the step was planned on.
// If an earlier step of the job made the target, the step runs only on that
// incarnation.
func (g *Gate) sameIncarnation(tx *store.Tx, s op.Step, spec op.Spec, now op.Observed) (*refusal.Refusal, error) {
	if spec.Creates || s.Incarnation != "" {
		if now.Incarnation != s.Incarnation {
			return refusal.As(stale(s, now)), nil
		}
		return nil, nil
	}
	p, err := journal.ReadProvenance(tx, now.Incarnation)
	if err != nil {
		return nil, err
	}
	if p == nil || p.Job != s.ID.Job || p.Target != s.Target {
		return refusal.New(refusal.StaleTarget, "%s is not the one that this job made", s.Target).
			At(refusal.StageBinding), nil
	}
	return nil, nil
}

// requesters returns for whom a step runs, at least one requester. A compensation is
// the gate's own.
func (g *Gate) requesters(tx *store.Tx, s op.Step) ([]op.Requester, error) {
	if s.Undoes > 0 {
		return []op.Requester{{Source: op.SourceGate}}, nil
	}
	who, err := journal.Requesters(tx, s.ID.Job)
	if err != nil || len(who) == 0 {
		return nil, errors.Join(err, refusal.New(refusal.Cancelled, "no requester asks for %s any more", s.ID))
	}
	return who, nil
}

// askInstead turns a planned step into a request. After that the job can no longer
// take back unsigned what it made. Operators take time to sign, and others may rely
// on it by then.
func (g *Gate) askInstead(tx *store.Tx, s op.Step, spec op.Spec, now op.Observed) (ended, error) {
	at, t := g.clock.Now().Now, op.TransitionOf(string(audit.Requested))
	moved, err := journal.Move(tx, s.ID, op.StatePlanned, t, t.Code, s.Verdict.Why, at)
	if err != nil || !moved {
		return ended{}, errors.Join(err, refusal.New(refusal.Conflict, "step %s is no longer planned", s.ID))
	}
	job, err := journal.ReadJob(tx, s.ID.Job)
	if err != nil {
		return ended{}, err
	}
	// A compensation that waits does not delay those of the other steps.
	if s.Undoes == 0 {
		if err := g.promoteMade(tx, s.ID, "waits for an operator"); err != nil {
			return ended{}, err
		}
	}
	r, err := g.issue(tx, s, spec, now, job.Reason, at, journal.AddRequest)
	if err != nil {
		return ended{}, err
	}
	refused := refusal.New(refusal.PendingSignature, "%s needs a signature by now: %s", s.ID, s.Verdict.Why).
		About(s.ID, op.StatePending)
	e := asked(audit.Requested, op.Requester{Source: op.SourceGate}, s, job.Reason)
	return ended{refused}, g.append(tx, issued(e, r))
}

// run commits the dispatch of the step. It stores how to take the step back, and
// what a later look is compared with.
func (g *Gate) run(tx *store.Tx, s op.Step, now op.Observed, u use) (ended, error) {
	moved, err := journal.Dispatch(tx, s.ID, s.State, undoOf(s, now), beforeOf(s, now), g.clock.Now().Now)
	if err != nil {
		return ended{}, err
	}
	if !moved {
		return ended{}, refusal.New(refusal.Conflict, "step %s is no longer %s", s.ID, s.State)
	}
	e := about(audit.Dispatched, "gate", s)
	if s.Undoes > 0 {
		e.Why = s.Verdict.Why // its class is decided only now
	}
	if err := g.append(tx, e); err != nil {
		return ended{}, err
	}
	return ended{}, g.use(tx, s, now, u)
}

// beforeOf returns what a look after the work is compared with, if the operation
// needs that.
func beforeOf(s op.Step, now op.Observed) []string {
	if spec, err := op.Lookup(s.Op); err == nil && spec.Before != nil {
		return spec.Before(now)
	}
	return nil
}

// end closes a step that may not run, and the transaction commits that.
func (g *Gate) end(tx *store.Tx, s op.Step, kind audit.Kind, refused *refusal.Refusal) (ended, error) {
	e := about(kind, "gate", s)
	e.Code, e.Stage, e.Detail = refused.Code, refused.Stage, refused.Detail
	return ended{refused.About(s.ID, op.TransitionOf(string(kind)).To)}, g.close(tx, s, e)
}
