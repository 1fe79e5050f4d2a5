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
// are issued anew.
func (g *Gate) Refresh(ctx context.Context, t op.Target) error {
	waiting, err := g.waiting(ctx, t)
	if err != nil || len(waiting) == 0 {
		return err
	}
	var whole *op.Observed // one look serves all who ask about the target as such
	var errs []error
	for _, s := range waiting {
		spec, err := op.Lookup(s.Op)
		if err != nil {
			return err
		}
		o := whole
		if o == nil || spec.Partial {
			now, err := g.look(ctx, s.Look())
			if err != nil {
				return errors.Join(append(errs, err)...)
			}
			if o = &now; !spec.Partial {
				whole = o
			}
		}
		if stale(s, *o) != nil {
			errs = append(errs, g.refreshOne(ctx, s.ID, *o, "the target changed", ""))
		}
	}
	return errors.Join(errs...)
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
			return g.close(tx, r.Step, op.StateExpired, op.Expired, e)
		case r.Offline || gone(r.Step, o):
			e := about(audit.Superseded, "gate", r.Step)
			e.Code, e.Detail = op.Superseded, overtaken(r.Step, o)
			return g.close(tx, r.Step, op.StateSuperseded, op.Superseded, e)
		}
		err = tx.Savepoint(func() error { return g.reissue(tx, id, o, why) })
		var refusal *op.Refusal
		if !errors.Is(err, store.ErrUnavailable) && errors.As(err, &refusal) {
			_, err = g.end(tx, r.Step, op.StateRefused, audit.Refused, refusal)
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

// Tick does what time brings: payloads that expired while they waited, or that a
// restore or a stricter policy left behind, are issued anew, counted refusals
// are written, what cooled off is woken, and what can never matter again is
// forgotten. While the clock is not believed, it only keeps what jobs have made
// whose signed steps wait for that.
func (g *Gate) Tick(ctx context.Context) error {
	moment := g.clock.Now()
	if !moment.Trusted {
		return g.wakeDue(ctx)
	}
	return errors.Join(g.flushRefusals(ctx), g.renewForeign(ctx), g.renew(ctx, moment.Now), g.wakeDue(ctx), g.prune(ctx, moment.Mark))
}

// renewForeign issues anew, until there is none, what was issued for another
// gate or under a looser policy: after a restore the gate id is new, and no
// signature over the old bytes would count.
func (g *Gate) renewForeign(ctx context.Context) error {
	if g.checked.Load() {
		return nil
	}
	waiting, err := g.Requests(ctx, op.StatePending)
	errs := []error{err}
	found := false
	for _, r := range waiting {
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
	}
	err = errors.Join(errs...)
	g.checked.Store(err == nil && !found)
	return err
}

func (g *Gate) renew(ctx context.Context, now time.Time) error {
	var errs []error
	var after op.RequestID
	for {
		var ids []op.RequestID
		err := g.view(ctx, func(tx *store.Tx) (err error) {
			ids, err = journal.Expiring(tx, now.Add(-Skew), g.Policy().MaxValidity, after, tickBatch)
			return err
		})
		if err != nil || len(ids) == 0 {
			return errors.Join(append(errs, err)...)
		}
		// One that cannot be issued anew keeps none of the others from it.
		for _, id := range ids {
			errs = append(errs, g.renewExpired(ctx, id, now))
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

// renewExpired issues a request anew whose payload has expired or lives for too
// long, if that has not been done since it was found.
func (g *Gate) renewExpired(ctx context.Context, id op.RequestID, now time.Time) error {
	r, err := g.Request(ctx, id)
	if err != nil || !now.After(r.ExpiresAt.Add(Skew)) && r.ExpiresAt.Sub(r.IssuedAt) <= g.Policy().MaxValidity {
		return err
	}
	return g.renewOne(ctx, r, "the payload lived for as long as it may")
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
		return journal.ForgetKeys(tx, mark.Add(-keyMaxAge), tickBatch)
	}))
}
