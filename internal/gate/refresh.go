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

// What one Tick does at the most, so that it never holds up a decision.
const (
	tickBatch = 256
	// pruneMargin keeps a spent nonce for longer than its payload, by more than
	// the durable time mark may lag.
	pruneMargin = time.Hour
	keyMaxAge   = 7 * 24 * time.Hour
)

// Refresh looks again at a target whose requests wait. One that is another
// incarnation by now supersedes them; one that changed has them issued anew.
func (g *Gate) Refresh(ctx context.Context, t op.Target) error {
	waiting, err := g.waiting(ctx, t)
	if err != nil || len(waiting) == 0 {
		return err
	}
	o, err := g.look(ctx, t)
	if err != nil {
		return err
	}
	for _, s := range waiting {
		if o.Incarnation == s.Incarnation && o.Fingerprint == s.Fingerprint {
			continue
		}
		if err := g.refreshOne(ctx, s.ID, o, false); err != nil {
			return err
		}
	}
	return nil
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
// still waits.
func (g *Gate) refreshOne(ctx context.Context, id op.RequestID, o op.Observed, expired bool) error {
	by := op.Requester{Source: op.SourceGate}
	return g.decide(ctx, by, audit.Entry{Job: id.Job.String(), Step: id.String()}, func(tx *store.Tx) error {
		r, err := journal.ReadRequest(tx, id)
		if err != nil || r.Step.State != op.StatePending {
			return err
		}
		switch {
		case expired && r.Offline:
			e := about(audit.Expired, "gate", r.Step)
			e.Code = op.Expired
			return g.close(tx, r.Step, op.StateExpired, op.Expired, e)
		case o.Incarnation != r.Step.Incarnation || r.Offline:
			e := about(audit.Superseded, "gate", r.Step)
			e.Code, e.Detail = op.Superseded, "the target is not the one that was meant any more"
			return g.close(tx, r.Step, op.StateSuperseded, op.Superseded, e)
		case expired:
			return g.reissue(tx, id, o, "the payload expired")
		default:
			return g.reissue(tx, id, o, "the target changed")
		}
	})
}

// Tick does what time brings: payloads that expired while they waited are
// issued anew, counted refusals are written, and what can never matter again
// is forgotten. While the clock is not believed, it does nothing of that.
func (g *Gate) Tick(ctx context.Context) error {
	moment := g.clock.Now()
	if !moment.Trusted {
		return nil
	}
	return errors.Join(g.flushRefusals(ctx), g.renew(ctx, moment.Now), g.prune(ctx, moment.Now))
}

func (g *Gate) renew(ctx context.Context, now time.Time) error {
	var ids []op.RequestID
	err := g.view(ctx, func(tx *store.Tx) (err error) {
		ids, err = journal.Expiring(tx, now.Add(-Skew), tickBatch)
		return err
	})
	if err != nil {
		return err
	}
	for _, id := range ids {
		r, err := g.Request(ctx, id)
		if err != nil {
			return err
		}
		o, err := g.look(ctx, r.Step.Target)
		if err != nil {
			// Nothing is known of the target; its payload stays expired, which
			// is refused, until it can be looked at.
			g.log.Warn("an expired request cannot be issued anew", "request", id.String(), "error", err)
			continue
		}
		if err := g.refreshOne(ctx, id, o, true); err != nil {
			return err
		}
	}
	return nil
}

func (g *Gate) prune(ctx context.Context, now time.Time) error {
	return g.machine(g.store.Update(ctx, func(tx *store.Tx) error {
		if _, err := nonce.Prune(tx, now.Add(-pruneMargin), tickBatch); err != nil {
			return err
		}
		return journal.ForgetKeys(tx, now.Add(-keyMaxAge), tickBatch)
	}))
}
