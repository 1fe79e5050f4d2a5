package gate

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"gated/internal/authz"
	"gated/internal/base/crashpoint"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/log/audit"
	"gated/internal/log/journal"
	"gated/internal/nonce"
)

// Reject ends a request by a signed rejection. The step may wait or be authorized,
// and is not dispatched yet. The rejection's own nonce is spent with it.
func (g *Gate) Reject(ctx context.Context, by op.Requester, id op.RequestID, e authz.Envelope) (op.Request, error) {
	for {
		r, err := g.rejectOnce(ctx, by, id, e)
		if !errors.Is(err, errRulesMoved) {
			return r, err
		}
	}
}

// rejectOnce verifies and decides under the rules of one moment.
func (g *Gate) rejectOnce(ctx context.Context, by op.Requester, id op.RequestID, e authz.Envelope) (op.Request, error) {
	entry := audit.Entry{Job: id.Job.String(), Step: id.String()}
	inForce := g.rules.Load()
	v := g.verifier(inForce)
	v.Trust = v.Trust.ToStop()
	rej, err := v.Rejection(e, g.clock.Now().Now)
	if err != nil {
		return op.Request{}, g.refuse(ctx, by, entry, err)
	}
	entry.Payload = op.SHA256(rej.Bytes)
	var r op.Request
	err = g.decide(ctx, by, entry, func(tx *store.Tx) error {
		if r, err = g.checkRejection(tx, inForce, rej, id); err != nil {
			return err
		}
		own := nonce.Record{Nonce: rej.Rejection.Nonce, Payload: entry.Payload, ExpiresAt: rej.Rejection.ExpiresAt,
			Fate: nonce.Used}
		if err := nonce.Issue(tx, own); err != nil {
			return err
		}
		e := about(audit.Rejected, by.String(), r.Step)
		e.PID, e.Detail, e.Payload, e.Code = by.PID, rej.Rejection.Reason, entry.Payload, refusal.Rejected
		for _, s := range rej.Signers {
			e.Signers = append(e.Signers, signedBy(s, time.Time{}).String())
		}
		if err := g.close(tx, r.Step, e); err != nil {
			return err
		}
		if err := g.rememberRejection(tx, r, rej); err != nil {
			return err
		}
		r, err = journal.ReadRequest(tx, id)
		crashpoint.Here(crashpoint.RejectionWritten)
		return err
	})
	if err == nil {
		crashpoint.Here(crashpoint.RejectionKept)
		g.wakeJob(ctx, id.Job) // so that the earlier work of its job is taken back
	}
	return r, err
}

func (g *Gate) checkRejection(tx *store.Tx, inForce *rules, rej authz.Rejection, id op.RequestID) (op.Request, error) {
	if g.rules.Load() != inForce {
		return op.Request{}, errRulesMoved
	}
	r, err := journal.ReadRequest(tx, id)
	if err != nil {
		return r, err
	}
	if err := inTime("the payload", rej.Rejection.ExpiresAt, g.clock.Now()); err != nil {
		return r, err
	}
	switch {
	case rej.Rejection.Nonce == r.Nonce:
		return r, refusal.New(refusal.Malformed, "a rejection has a nonce of its own, not the request's").
			At(refusal.StageNonce)
	case rej.Rejection.Request != id || rej.Rejection.PayloadSHA256 != op.SHA256(r.Payload):
		return r, refusal.New(refusal.BindingMismatch, "the rejection is of another request or of an older payload").
			At(refusal.StageBinding).About(id, r.Step.State)
	}
	if _, known, err := nonce.Lookup(tx, rej.Rejection.Nonce); err != nil {
		return r, err
	} else if known {
		return r, refusal.New(refusal.Replayed, "this rejection was used already").At(refusal.StageNonce).
			About(id, r.Step.State)
	}
	need, err := inForce.requirement(r, g.clock.Now().Now)
	if err != nil {
		return r, err
	}
	// A rejection needs no touch.
	if err := each(rej.Signers, need, inRole); err != nil {
		return r, err
	}
	if r.Step.State != op.StatePending && r.Step.State != op.StateAuthorized {
		return r, refusal.New(refusal.Conflict, "%s is %s already", id, r.Step.State).About(id, r.Step.State)
	}
	return r, nil
}

// Cancel withdraws the caller's own wish for a job, before any of its steps was
// dispatched. The job ends when its last requester withdraws. Root and Config.UID
// of this host can cancel every job.
func (g *Gate) Cancel(ctx context.Context, by op.Requester, id op.JobID) (op.Job, error) {
	var job op.Job
	err := g.decideOr(ctx, by, audit.Entry{Job: id.String()}, func(tx *store.Tx) (err error) {
		if job, err = journal.ReadJob(tx, id); err != nil {
			return err
		}
		mine := false
		for _, r := range job.Requesters {
			mine = mine || r.Source != op.SourceDesired && r.UID == by.UID && r.String() == by.String()
		}
		// Only a caller on the socket has a uid that means anything.
		if !mine && (by.Source != op.SourceAPI || by.Set != g.member || by.UID != 0 && by.UID != g.uid) {
			return refusal.New(refusal.NotAllowed, "%s did not ask for %s", by, id)
		}
		for _, s := range job.Steps {
			if s.State == op.StateDispatched || !s.State.Open() {
				return refusal.New(refusal.Conflict, "%s is %s: it is too late to cancel it", s.ID, s.State)
			}
		}
		if mine {
			left, err := journal.DropRequester(tx, id, by.String())
			if err != nil {
				return err
			}
			if left > 0 {
				e := withPID(about(audit.Withdrawn, by.String(), job.Steps[0]), by)
				e.Detail = "others still want it"
				job.Requesters, err = journal.Requesters(tx, id)
				return errors.Join(err, g.append(tx, e))
			}
		}
		e := withPID(about(audit.Cancelled, by.String(), job.Steps[0]), by)
		e.Code = refusal.Cancelled
		if err := g.close(tx, job.Steps[0], e); err != nil {
			return err
		}
		job, err = journal.ReadJob(tx, id)
		crashpoint.Here(crashpoint.CancelWritten)
		return err
	}, nil)
	crashpoint.Here(crashpoint.CancelKept)
	return job, err
}

// Withdraw ends what a desired set no longer wishes for a target. That is every open
// step of the set that is not dispatched and is not in keep. A waiting step is
// superseded, and an authorized one is cancelled. What an operator rejected may be
// asked again.
func (g *Gate) Withdraw(ctx context.Context, set string, t op.Target, keep []op.Ask) error {
	by := op.Requester{Source: op.SourceDesired, Set: set}
	var gone []op.Step
	var rejected bool
	err := g.view(ctx, func(tx *store.Tx) (err error) {
		if len(keep) == 0 {
			rejected, err = journal.HasRejected(tx, t, by.String())
		}
		if err == nil {
			gone, err = withdrawn(tx, by, t, keep)
		}
		return err
	})
	if err != nil || len(gone) == 0 && !rejected {
		return err
	}
	return g.decide(ctx, by, audit.Entry{Target: t.String()}, func(tx *store.Tx) error { return g.withdraw(tx, by, t, keep) })
}

// withdraw is Withdraw in a transaction.
func (g *Gate) withdraw(tx *store.Tx, by op.Requester, t op.Target, keep []op.Ask) error {
	if len(keep) == 0 {
		if err := journal.ForgetRejected(tx, t, by.String()); err != nil {
			return err
		}
	}
	gone, err := withdrawn(tx, by, t, keep)
	if err != nil {
		return err
	}
	for _, s := range gone {
		left, err := journal.DropRequester(tx, s.ID.Job, by.String())
		if err != nil {
			return err
		}
		if left > 0 {
			e := about(audit.Withdrawn, by.String(), s)
			e.Detail = "others still want it"
			if err := g.append(tx, e); err != nil {
				return err
			}
			continue
		}
		kind := audit.Superseded
		if s.State == op.StateAuthorized {
			kind = audit.Cancelled
		}
		e := about(kind, by.String(), s)
		e.Detail = "desired state no longer asks for it"
		if err := g.close(tx, s, e); err != nil {
			return err
		}
	}
	return nil
}

func withdrawn(tx *store.Tx, by op.Requester, t op.Target, keep []op.Ask) ([]op.Step, error) {
	open, err := journal.OpenSteps(tx, t)
	if err != nil {
		return nil, err
	}
	var out []op.Step
	for _, s := range open {
		if s.State == op.StateDispatched || s.Undoes != 0 {
			continue
		}
		if slices.ContainsFunc(keep, func(a op.Ask) bool { return s.Op == a.Op && s.Params.Equal(a.Params) }) {
			continue
		}
		who, err := journal.Requesters(tx, s.ID.Job)
		if err != nil {
			return nil, err
		}
		for _, r := range who {
			if r == by {
				out = append(out, s)
			}
		}
	}
	return out, nil
}

// Adopt records that desired state names an incarnation. That ends its scratch
// status.
func (g *Gate) Adopt(ctx context.Context, set string, o op.Observed) error {
	var p *op.Provenance
	err := g.view(ctx, func(tx *store.Tx) (err error) {
		if p, err = journal.ReadProvenance(tx, o.Incarnation); err != nil || p != nil {
			return err
		}
		was, err := journal.MadeWith(tx, cmp.Or(o.Birth, o.Marked))
		if err == nil {
			p, err = journal.ReadProvenance(tx, was)
		}
		return err
	})
	if err != nil || p == nil || p.ScratchEnded != "" || p.Creator == "desired:"+set {
		return err
	}
	by := op.Requester{Source: op.SourceDesired, Set: set}
	return g.decide(ctx, by, audit.Entry{Target: o.Target.String()}, func(tx *store.Tx) error {
		return g.promoteSeen(tx, by.String(), o, "desired state "+set+" mentions it")
	})
}
