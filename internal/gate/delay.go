package gate

import (
	"context"
	"errors"
	"time"

	"gated/internal/audit"
	"gated/internal/journal"
	"gated/internal/op"
	"gated/internal/store"
)

// delayed refuses, as Unavailable, an authorized step whose cool-off is not over
// or whose window is not open: it waits, and is not ended.
func delayed(need op.Requirement, r op.Request, now time.Time) error {
	from := r.AuthorizedAt.Add(need.CoolOff)
	switch {
	case now.Before(from):
		return op.Refuse(op.Unavailable, "%s cools off until %s", r.ID, from.UTC().Format(time.RFC3339)).At(op.StagePolicy).
			WithHint("opsign reject %s --reason TEXT stops it", r.ID)
	case !need.Open(now):
		return op.Refuse(op.Unavailable, "%s waits until its window opens", r.ID).At(op.StagePolicy)
	default:
		return nil
	}
}

// inTimeToRun refuses, as Expired, an approval now that would run out before
// the delays of its step are over: the nonce would be spent for nothing.
func inTimeToRun(need op.Requirement, r op.Request, now time.Time) error {
	if until := expiry(need, r).Add(Skew); !runsBetween(need, now.Add(need.CoolOff), until) {
		return op.Refuse(op.Expired, "the payload expires at %s, and after the last signature its step could not run before that", until.Add(-Skew).UTC().Format(time.RFC3339)).
			At(op.StageTime).WithHint("look at the request again; if it was issued anew, sign it as it is now; else sign closer to its window")
	}
	return nil
}

// runsBetween reports whether the windows are all open at some time from one
// moment to another.
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

// Due returns how long the policy still holds back what is authorized on a
// target: until its delays are over, or until its payload has expired and it
// ends. ok is false where it holds back nothing.
func (g *Gate) Due(ctx context.Context, t op.Target) (wait time.Duration, ok bool, err error) {
	held, now := g.rules.Load(), g.clock.Now().Now
	err = g.view(ctx, func(tx *store.Tx) error {
		open, err := journal.OpenSteps(tx, t)
		if err != nil {
			return err
		}
		for _, s := range open {
			if s.State != op.StateAuthorized {
				continue
			}
			r, err := journal.RequestOf(tx, s)
			if err != nil {
				return err
			}
			need, err := held.requirement(r, now)
			if err != nil || delayed(need, r, now) == nil {
				continue // it is for the dispatch to decide
			}
			at, _ := opens(need, latest(now, r.AuthorizedAt.Add(need.CoolOff)), expiry(need, r).Add(Skew))
			if d := at.Sub(now); !ok || d < wait {
				wait, ok = d, true
			}
		}
		return nil
	})
	return wait, ok, err
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// expiry is when a request's payload stops to count: it may not live for longer
// than the policies of then and now both allow.
func expiry(need op.Requirement, r op.Request) time.Time {
	longest := r.IssuedAt.Add(need.MaxValidity)
	if longest.Before(r.ExpiresAt) {
		return longest
	}
	return r.ExpiresAt
}

// holds reports whether an authorized step is held back now, by a delay of the
// policy of then or now. One whose delay is over, or that expired, is not: it
// is for the dispatch to decide.
func (g *Gate) holds(tx *store.Tx, s op.Step) (bool, error) {
	held := g.rules.Load()
	if s.State != op.StateAuthorized {
		return false, nil
	}
	if held.trust.Blocked() != nil {
		return true, nil // nobody knows whether its signatures count
	}
	if !held.policy.Delays() {
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
	need, err := held.requirement(r, now)
	if err != nil || now.After(expiry(need, r).Add(Skew)) {
		return false, nil
	}
	return delayed(need, r, now) != nil, nil
}

// WakeDue wakes the jobs of authorized steps that nothing holds back any more:
// the one before such a step may be on another target. What the job of one that is held back has made so far is not to be taken
// back unsigned after that: it stands for long enough that others may come to
// rely on it. Tick does so too, before it looks at targets.
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

// keepMade promotes what the job of a step that waits has made so far.
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
