package gate

import (
	"context"
	"errors"
	"time"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/log/audit"
	"gated/internal/log/journal"
)

// delayed refuses, as Unavailable, an authorized step whose wait is not over or
// whose window is not open. The step waits and does not end.
func delayed(need op.Requirement, r op.Request, now time.Time) error {
	from := r.AuthorizedAt.Add(need.Wait(r.Signatures))
	switch {
	case now.Before(from):
		return refusal.New(refusal.Unavailable, "%s cools off until %s", r.ID, from.UTC().Format(time.RFC3339)).
			At(refusal.StagePolicy).
			WithHint("opsign reject %s --reason TEXT stops it", r.ID)
	case !need.Open(now):
		return refusal.New(refusal.Unavailable, "%s waits until its window opens", r.ID).At(refusal.StagePolicy)
	default:
		return nil
	}
}

// inTimeToRun refuses, as Expired, an approval that would expire before the delays
// of its step are over. Otherwise the nonce would be spent, and the step could not
// run. signed has the signatures with those that come now.
func inTimeToRun(need op.Requirement, r op.Request, signed []op.Signed, now time.Time) error {
	if until := expiry(need, r).Add(Skew); !runsBetween(need, now.Add(need.Wait(signed)), until) {
		return refusal.New(refusal.Expired,
			"the payload expires at %s, and after the last signature its step could not run before that", until.Add(-Skew).UTC().Format(time.RFC3339)).
			At(refusal.StageTime).
			WithHint("look at the request again; if it was issued anew, sign it as it is now; else sign closer to its window")
	}
	return nil
}

// runsBetween reports whether all windows are open at the same time between the two
// moments.
func runsBetween(need op.Requirement, from, until time.Time) bool {
	_, ok := opens(need, from, until)
	return ok
}

// opens returns the first such time. Windows open and close at whole minutes.
func opens(need op.Requirement, from, until time.Time) (time.Time, bool) {
	for t := from; !t.After(until); t = t.Truncate(time.Minute).Add(time.Minute) {
		if need.Open(t) {
			return t, true
		}
	}
	return until, false
}

// due returns how long the policy still delays the authorized ones of a target's open steps, 0 if it delays none.
func (g *Gate) due(tx *store.Tx, open []op.Step) (wait time.Duration, err error) {
	inForce, now := g.rules.Load(), g.clock.Now().Now
	for _, s := range open {
		if s.State != op.StateAuthorized {
			continue
		}
		r, err := journal.RequestOf(tx, s)
		if err != nil {
			return 0, err
		}
		need, err := inForce.requirement(r, now)
		if err != nil || delayed(need, r, now) == nil {
			continue // the dispatch decides
		}
		at, _ := opens(need, latest(now, r.AuthorizedAt.Add(need.Wait(r.Signatures))), expiry(need, r).Add(Skew))
		if d := max(at.Sub(now), time.Millisecond); wait == 0 || d < wait {
			wait = d
		}
	}
	return wait, nil
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// expiry is when a request's payload no longer counts: the policy at the request and
// the policy in force both limit its life.
func expiry(need op.Requirement, r op.Request) time.Time {
	longest := r.IssuedAt.Add(need.MaxValidity)
	if longest.Before(r.ExpiresAt) {
		return longest
	}
	return r.ExpiresAt
}

// holds reports whether a delay keeps an authorized step waiting now. Both the
// policy at the request and the policy in force can delay it. If the delay is over
// or the payload expired, the dispatch decides, so the answer is false.
func (g *Gate) holds(tx *store.Tx, s op.Step) (bool, error) {
	inForce := g.rules.Load()
	if s.State != op.StateAuthorized {
		return false, nil
	}
	if inForce.trust.Blocked() != nil {
		return true, nil // the gate cannot tell whether its signatures count
	}
	if !inForce.policy.Delays() {
		delays, err := journal.IsDelayed(tx, s.ID)
		if err != nil || !delays {
			return false, err
		}
	}
	r, err := journal.RequestOf(tx, s)
	if err != nil {
		return false, err
	}
	now := g.clock.Now().Now
	need, err := inForce.requirement(r, now)
	if err != nil || now.After(expiry(need, r).Add(Skew)) {
		return false, nil
	}
	return delayed(need, r, now) != nil, nil
}

// WakeDue wakes the jobs of authorized steps that no delay keeps waiting any more.
// It wakes all targets of the job, because the step before may be on another target.
// If a step still waits, its job can no longer take back unsigned what it made:
// others may rely on it by then. Tick does the same before it looks at targets.
func (g *Gate) WakeDue(ctx context.Context) error {
	var due, waiting []op.Step
	err := g.view(ctx, func(tx *store.Tx) error {
		steps, err := journal.InState(tx, op.StateAuthorized)
		if err != nil {
			return err
		}
		trusted := g.clock.Now().Trusted
		for _, s := range steps {
			held, err := g.holds(tx, s)
			switch {
			case err != nil:
				return err
			case held || !trusted:
				waiting = append(waiting, s)
			default:
				due = append(due, s)
			}
		}
		return nil
	})
	for _, s := range due {
		g.wakeJob(ctx, s.ID.Job)
	}
	for _, s := range waiting {
		if s.ID.Index > 1 {
			err = errors.Join(err, g.keepMade(ctx, s))
		}
	}
	return err
}

// keepMade promotes what the job of a waiting step has made so far.
func (g *Gate) keepMade(ctx context.Context, s op.Step) error {
	by := op.Requester{Source: op.SourceGate}
	return g.decide(ctx, by, audit.Entry{Job: s.ID.Job.String(), Step: s.ID.String()}, func(tx *store.Tx) error {
		now, err := journal.ReadStep(tx, s.ID)
		if err != nil || now.State != op.StateAuthorized {
			return err
		}
		return g.promoteMade(tx, s.ID, "waits until it may run")
	})
}
