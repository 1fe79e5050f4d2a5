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
	"gated/internal/nonce"
)

const (
	// tickBatch is how many rows Tick reads or deletes at a time, so that it never
	// delays a decision.
	tickBatch = 256
	// pruneMargin is how much longer than its payload a spent nonce is kept. It is
	// more than the durable time mark may lag.
	pruneMargin = time.Hour
	keyMaxAge   = 7 * 24 * time.Hour
	// rejectionsKept is how long operators see that a wish was rejected before. It is
	// longer than policy.MaxRejectHolds.
	rejectionsKept = 30 * 24 * time.Hour
)

// Refresh looks again at a target with waiting requests. If what they are about is
// gone, it supersedes them. If the target changed, it issues them anew. A look
// depends on its step: other steps may miss other parts of the target, and have
// other facts.
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

// RefreshAfter is one part of Refresh, so that other work on the target does not
// wait for all of it. The first call looks once for all requests about the whole
// target. Each other call looks for one request about a part of the target. It
// returns the request to go on after, and whether there are more.
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

// refreshAll refreshes requests that can share one look.
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

// ofPart reports whether a look depends on the step. It does if the step names a
// part of the target, which may be missing. It also does if its digest does not
// cover the whole target, or if a start or a destroy depends on other guests too.
func ofPart(s op.Step) bool {
	spec, err := op.Lookup(s.Op)
	return err != nil || spec.Partial || spec.Starts || spec.Identity == op.Ends || s.Params.Has("snapshot") || s.Params.Has("backup") || s.Params.Has("disk")
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

// refreshOne supersedes, expires or issues anew one request, if it still waits. If
// the present configuration refuses the step, the request ends as refused. If dead
// is not empty, it is the nonce of a payload that cannot count any more. Then a
// request with a newer payload stays unchanged.
func (g *Gate) refreshOne(ctx context.Context, id op.RequestID, o op.Observed, why, dead string) error {
	by := op.Requester{Source: op.SourceGate}
	var ended bool
	err := g.decide(ctx, by, audit.Entry{Job: id.Job.String(), Step: id.String()}, func(tx *store.Tx) error {
		ended = false
		r, err := journal.ReadRequest(tx, id)
		if err != nil || r.Step.State != op.StatePending || dead != "" && r.Nonce != dead {
			return err
		}
		if r.Step.Op == op.Rotate && g.rules.Load().trust.Blocked() != nil {
			return nil // the gate cannot say now what it would make of the file
		}
		ended = true
		switch {
		case dead != "" && r.Offline:
			e := about(audit.Expired, "gate", r.Step)
			e.Code = refusal.Expired
			return g.close(tx, r.Step, e)
		case r.Offline || gone(r.Step, o):
			e := about(audit.Superseded, "gate", r.Step)
			e.Code, e.Detail = refusal.Superseded, overtaken(r.Step, o)
			return g.close(tx, r.Step, e)
		}
		err = tx.Savepoint(func() error { return g.reissue(tx, id, o, why) })
		var refused *refusal.Refusal
		if !errors.Is(err, store.ErrUnavailable) && errors.As(err, &refused) {
			_, err = g.end(tx, r.Step, audit.Refused, refused)
			return err
		}
		ended = false
		return err
	})
	if err == nil && ended {
		g.wakeJob(ctx, id.Job) // so that the earlier work of its job is taken back
	}
	return err
}

// Tick does what is due. It issues payloads anew that expired, that a clock which
// was ahead issued, or that a restore or a stricter policy made useless. It writes
// the counts of refusals, wakes steps whose delay is over, and deletes old records.
// While the gate does not trust its clock, Tick only keeps what jobs with waiting
// signed steps have made.
func (g *Gate) Tick(ctx context.Context) error {
	moment := g.clock.Now()
	if !moment.Trusted {
		return g.WakeDue(ctx)
	}
	return errors.Join(g.WakeDue(ctx), g.wakeShown(ctx), g.flushRefusals(ctx), g.prune(ctx, moment.Mark), g.renewForeign(ctx), g.renew(ctx, moment.Now))
}

// renewForeign issues all requests anew that were issued for another gate or under a
// looser policy. After a restore the gate id is new, so no signature over the old
// bytes would count.
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
		// If one request cannot be issued anew, the others still are.
		for _, id := range ids {
			errs = append(errs, g.renewOutOfTime(ctx, id, now))
		}
		after = ids[len(ids)-1]
	}
}

// renewLate issues a request anew if its approval came too late for its delays, and
// a new payload would be in time. So its people do not wait until the old payload
// has expired.
func (g *Gate) renewLate(ctx context.Context, r op.Request, refused error) {
	now := g.clock.Now()
	if !errors.Is(refused, refusal.Expired) || r.Step.State != op.StatePending || r.Offline || !now.Trusted {
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

// renewOutOfTime issues a request anew if its payload has expired, lives too long,
// or is from the future. It reads the request again, because it may have a new
// payload by now.
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

// renewOne issues a request anew, unless it no longer has r's payload.
func (g *Gate) renewOne(ctx context.Context, r op.Request, why string) error {
	o, err := g.look(ctx, r.Step.Look())
	if err != nil {
		// The look failed. The payload stays expired, so approvals are refused, until a
		// look succeeds.
		g.log.Warn("a request cannot be issued anew", "request", r.ID.String(), "error", err)
		return nil
	}
	return g.refreshOne(ctx, r.ID, o, why, r.Nonce)
}

// prune deletes old records by the durable mark. The clock may be ahead of the mark
// by as much as the margin, and after a crash the gate continues from the mark.
func (g *Gate) prune(ctx context.Context, mark time.Time) error {
	return g.machine(g.store.Update(ctx, func(tx *store.Tx) error {
		if _, err := nonce.Prune(tx, mark.Add(-pruneMargin), tickBatch); err != nil {
			return err
		}
		if err := journal.ForgetSpent(tx, mark.Add(-2*quotaWindow), tickBatch); err != nil {
			return err
		}
		if err := journal.ForgetRejections(tx, mark.Add(-rejectionsKept), tickBatch); err != nil {
			return err
		}
		return journal.ForgetKeys(tx, mark.Add(-keyMaxAge), tickBatch)
	}))
}
