package gate

import (
	"context"
	"errors"
	"time"

	"gated/internal/audit"
	"gated/internal/journal"
	"gated/internal/nonce"
	"gated/internal/op"
	"gated/internal/store"
)

const (
	// tickBatch is how many rows Tick reads or forgets at a time, so that it
	// never holds up a decision.
	tickBatch = 256
	// pruneMargin keeps a spent nonce for longer than its payload, by more than
	// the durable time mark may lag.
	pruneMargin = time.Hour
	keyMaxAge   = 7 * 24 * time.Hour
)

// Refresh looks again at a target whose requests wait. Where what they are about
// is another one by now, or has ended, they are superseded; where it changed, they
// are issued anew. What a look shows depends on the step that it is for: what is
// missing for one step of the target is not for another, nor are the facts.
func (g *Gate) Refresh(ctx context.Context, t op.Target) error {
	var errs []error
	after, more := op.StepID{}, true
	for more {
		var err error
		after, more, err = g.RefreshAfter(ctx, t, after)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// RefreshAfter is a part of Refresh, so that nothing else of the target has to
// wait for all of it: it begins with one look that serves all who ask about the
// target as such, and else looks for one of those who ask about a part of it. It
// returns the request after which to go on, and whether there are more.
func (g *Gate) RefreshAfter(ctx context.Context, t op.Target, after op.StepID) (next op.StepID, more bool, err error) {
	waiting, err := g.waiting(ctx, t)
	if err != nil {
		return after, false, err
	}
	var whole, parts []op.Step
	for _, s := range waiting {
		switch {
		case !ofPart(s):
			whole = append(whole, s)
		case later(s.ID, after):
			parts = append(parts, s)
		}
	}
	if after == (op.StepID{}) && len(whole) > 0 {
		after = op.StepID{Index: 1} // before any request
		return after, len(parts) > 0, g.refreshAll(ctx, whole)
	}
	if len(parts) == 0 {
		return after, false, nil
	}
	err = g.refreshAll(ctx, parts[:1])
	return parts[0].ID, len(parts) > 1 && err == nil, err
}

// later reports whether a step comes after another one.
func later(a, b op.StepID) bool { return a.Job > b.Job || a.Job == b.Job && a.Index > b.Index }

// refreshAll refreshes requests that one look is enough for.
func (g *Gate) refreshAll(ctx context.Context, waiting []op.Step) error {
	o, err := g.see(ctx, waiting[0].Look())
	if err != nil {
		return err
	}
	var errs []error
	for _, s := range waiting {
		if stale(s, o) != nil {
			errs = append(errs, g.refreshOne(ctx, s.ID, g.told(ctx, s.Look(), o), "the target changed", ""))
		}
	}
	return errors.Join(errs...)
}

// ofPart reports whether what a look shows of a step depends on the step: it names
// a part of its target, which may be missing while all else is there, or its digest
// does not cover the target as such, or, of a start, also what others have.
func ofPart(s op.Step) bool {
	spec, err := op.Lookup(s.Op)
	return err != nil || spec.Partial || spec.Starts || s.Params.Has("snapshot") || s.Params.Has("backup") || s.Params.Has("disk")
}

func (g *Gate) waiting(ctx context.Context, t op.Target) (out []op.Step, err error) {
	err = g.view(ctx, func(tx *store.Tx) error {
		open, err := journal.OpenSteps(tx, t)
		for _, s := range open {
			if s.State == op.StatePending {
				out = append(out, s)
			}
		}
		return err
	})
	return out, err
}

// refreshOne supersedes, expires or issues anew one waiting request, if it
// still waits. One that the configuration now refuses ends so. dead is the nonce
// of a payload that cannot be approved any more, if it is for that one: a payload
// that took its place meanwhile stays.
func (g *Gate) refreshOne(ctx context.Context, id op.RequestID, o op.Observed, why, dead string) error {
	by := op.Requester{Source: op.SourceGate}
	ended := false
	err := g.decide(ctx, by, audit.Entry{Job: id.Job.String(), Step: id.String()}, func(tx *store.Tx) error {
		r, err := journal.ReadRequest(tx, id)
		if err != nil || r.Step.State != op.StatePending || dead != "" && r.Nonce != dead {
			return err
		}
		if r.Step.Op == op.Rotate && g.rules.Load().trust.Blocked() != nil {
			return nil // what it would make of the file cannot be said now
		}
		ended = true
		switch {
		case dead != "" && r.Offline:
			e := about(audit.Expired, "gate", r.Step)
			e.Code = op.Expired
			return g.close(tx, r.Step, e)
		case r.Offline || gone(r.Step, o):
			e := about(audit.Superseded, "gate", r.Step)
			e.Code, e.Detail = op.Superseded, overtaken(r.Step, o)
			return g.close(tx, r.Step, e)
		}
		err = tx.Savepoint(func() error { return g.reissue(tx, id, o, why) })
		var refusal *op.Refusal
		if !errors.Is(err, store.ErrUnavailable) && errors.As(err, &refusal) {
			_, err = g.end(tx, r.Step, audit.Refused, refusal)
			return err
		}
		ended = false
		return err
	})
	if err == nil && ended {
		g.wakeJob(ctx, id.Job) // what its job did before is taken back
	}
	return err
}

// Tick does what time brings. It issues payloads anew that expired, that a clock
// which was ahead issued, or that a restore or a stricter policy left behind. It
// writes counted refusals, wakes what cooled off, and forgets what can never matter
// again. While the clock is not believed, it only keeps what jobs have made whose
// signed steps wait for that.
func (g *Gate) Tick(ctx context.Context) error {
	moment := g.clock.Now()
	if !moment.Trusted {
		return g.WakeDue(ctx)
	}
	return errors.Join(g.WakeDue(ctx), g.wakeShown(ctx), g.flushRefusals(ctx), g.prune(ctx, moment.Mark), g.renewForeign(ctx), g.renew(ctx, moment.Now))
}

// renewForeign issues anew, until there is none, what was issued for another
// gate or under a looser policy: after a restore the gate id is new, and no
// signature over the old bytes would count.
func (g *Gate) renewForeign(ctx context.Context) error {
	if g.checked.Load() {
		return nil
	}
	var errs []error
	found := false
	err := g.EachRequest(ctx, op.StatePending, func(r op.Request) error {
		why := ""
		if p, err := op.DecodePayload(r.Payload); err != nil || p.Gate != g.id || p.Host != g.host {
			why = "it was issued for another gate"
		} else if expiry(r.Need, r).Before(r.ExpiresAt) {
			why = "it lives for longer than the policy allows now"
		}
		if why != "" {
			found = true
			errs = append(errs, g.renewOne(ctx, r, why))
		}
		return nil
	})
	err = errors.Join(append(errs, err)...)
	g.checked.Store(err == nil && !found)
	return err
}

func (g *Gate) renew(ctx context.Context, now time.Time) error {
	var errs []error
	var after op.RequestID
	for {
		var ids []op.RequestID
		err := g.view(ctx, func(tx *store.Tx) (err error) {
			ids, err = journal.OutOfTime(tx, now, Skew, g.Policy().MaxValidity, after, tickBatch)
			return err
		})
		if err != nil || len(ids) == 0 {
			return errors.Join(append(errs, err)...)
		}
		// One that cannot be issued anew keeps none of the others from it.
		for _, id := range ids {
			errs = append(errs, g.renewOutOfTime(ctx, id, now))
		}
		after = ids[len(ids)-1]
	}
}

// renewLate issues a request anew whose approval came too late for its delays,
// if a payload that begins now would do: its people need not wait until the old
// one has expired.
func (g *Gate) renewLate(ctx context.Context, r op.Request, refusal error) {
	now := g.clock.Now()
	if !errors.Is(refusal, op.Expired) || r.Step.State != op.StatePending || r.Offline || !now.Trusted {
		return
	}
	need, err := g.rules.Load().requirement(r, now.Now)
	if err != nil || !runsBetween(need, now.Now.Add(need.CoolOff), now.Now.Add(need.MaxValidity)) {
		return
	}
	if err := g.renewOne(ctx, r, "what was left of its life was too short to run in"); err != nil {
		g.log.Warn("a request cannot be issued anew", "request", r.ID.String(), "error", err)
	}
}

// renewOutOfTime issues a request anew whose payload has expired, lives for too
// long or is from the future, if that has not been done since it was found.
func (g *Gate) renewOutOfTime(ctx context.Context, id op.RequestID, now time.Time) error {
	r, err := g.Request(ctx, id)
	switch {
	case err != nil:
		return err
	case now.After(r.ExpiresAt.Add(Skew)) || r.ExpiresAt.Sub(r.IssuedAt) > g.Policy().MaxValidity:
		return g.renewOne(ctx, r, "the payload lived for as long as it may")
	case r.IssuedAt.After(now.Add(Skew)) && !r.Offline:
		return g.renewOne(ctx, r, "the clock was set back, and the payload was not valid yet")
	default:
		return nil
	}
}

// renewOne issues a request anew, in the place of the payload that r has.
func (g *Gate) renewOne(ctx context.Context, r op.Request, why string) error {
	o, err := g.look(ctx, r.Step.Look())
	if err != nil {
		// Nothing is known of the target; its payload stays expired, which is
		// refused, until it can be looked at.
		g.log.Warn("a request cannot be issued anew", "request", r.ID.String(), "error", err)
		return nil
	}
	return g.refreshOne(ctx, r.ID, o, why, r.Nonce)
}

// prune forgets by the mark: what Now shows may be ahead of it by as much as the
// margin, and is not what the gate goes on from after a crash.
func (g *Gate) prune(ctx context.Context, mark time.Time) error {
	return g.machine(g.store.Update(ctx, func(tx *store.Tx) error {
		if _, err := nonce.Prune(tx, mark.Add(-pruneMargin), tickBatch); err != nil {
			return err
		}
		if err := journal.ForgetSpent(tx, mark.Add(-2*quotaWindow), tickBatch); err != nil {
			return err
		}
		return journal.ForgetKeys(tx, mark.Add(-keyMaxAge), tickBatch)
	}))
}
