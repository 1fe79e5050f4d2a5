package gate

import (
	"fmt"
	"time"

	"gated/internal/audit"
	"gated/internal/journal"
	"gated/internal/nonce"
	"gated/internal/op"
	"gated/internal/store"
)

// issue makes the request of a destructive step: a fresh nonce and the exact
// bytes that an operator signs. put writes it: as a new one, or in the place of
// the one before.
func (g *Gate) issue(tx *store.Tx, s op.Step, spec op.Spec, o op.Observed, reason string, now time.Time,
	put func(*store.Tx, op.Request) error) (op.Request, error) {
	need, err := g.rules.Load().asks(spec, s, o.Labels, now)
	if err != nil {
		return op.Request{}, err
	}
	issued := now.UTC().Truncate(time.Second)
	r := op.Request{ID: s.ID, Facts: o.Facts, Labels: o.Labels, Nonce: nonce.New(), Need: need,
		CreatedAt: now, IssuedAt: issued, ExpiresAt: issued.Add(need.MaxValidity)}
	r.Payload, err = op.Payload{Gate: g.id, Host: g.host, Op: s.Op, Target: s.Target, Incarnation: s.Incarnation,
		State: s.Fingerprint, Params: s.Params, Nonce: r.Nonce, IssuedAt: r.IssuedAt, ExpiresAt: r.ExpiresAt,
		Reason: reason}.Encode()
	if err != nil {
		return r, err
	}
	if err := nonce.Issue(tx, recordOf(r)); err != nil {
		return r, err
	}
	return r, put(tx, r)
}

func recordOf(r op.Request) nonce.Record {
	return nonce.Record{Nonce: r.Nonce, Request: r.ID, Payload: op.SHA256(r.Payload), ExpiresAt: r.ExpiresAt}
}

// reissue gives a waiting request a new payload for the target as it is seen
// now. The old nonce is spent, signatures are dropped, the id and state stay.
func (g *Gate) reissue(tx *store.Tx, id op.RequestID, o op.Observed, why string) error {
	r, err := journal.ReadRequest(tx, id)
	if err != nil {
		return err
	}
	if r.Step.State != op.StatePending || r.Offline || gone(r.Step, o) {
		return fmt.Errorf("request %s is not one to issue anew", id)
	}
	now := g.clock.Now().Now
	spec, err := op.Lookup(r.Step.Op)
	if err != nil {
		return err
	}
	s := r.Step
	s.Fingerprint = o.Fingerprint
	if s.Verdict, err = g.classify(tx, r.Requesters[0], s, o); err != nil {
		return err
	}
	// It has asked for a signature; it does not stop asking.
	if s.Verdict.Class == op.Benign {
		s.Verdict = r.Step.Verdict
	}
	fate := nonce.Superseded
	if !now.Before(r.ExpiresAt) {
		fate = nonce.Expired
	}
	if err := nonce.Spend(tx, r.Nonce, fate); err != nil {
		return err
	}
	if err := journal.Rebind(tx, s); err != nil {
		return err
	}
	if r, err = g.issue(tx, s, spec, o, r.Reason, now, journal.PutRequest); err != nil {
		return err
	}
	e := about(audit.Reissued, "gate", s)
	e.Detail, e.Why = why, s.Verdict.Why // it may have its class for another reason by now
	return g.append(tx, issued(e, r))
}

// issued adds to an entry what a request asks people for, and a digest of what
// they are shown beside it.
func issued(e audit.Entry, r op.Request) audit.Entry {
	e.Need, e.Payload, e.Digest = journal.EncodeExtra(r.Need), op.SHA256(r.Payload), journal.ShownDigest(r)
	return e
}

// close ends an open step that did not run, spends its nonce, and ends what
// else its job still had to do.
func (g *Gate) close(tx *store.Tx, s op.Step, to op.State, code op.Code, e audit.Entry) error {
	now := g.clock.Now().Now
	moved, err := journal.Move(tx, s.ID, s.State, to, code, e.Detail, now)
	if err != nil {
		return err
	}
	if !moved {
		return op.Refuse(op.Conflict, "step %s is no longer %s", s.ID, s.State)
	}
	if s.State == op.StatePending {
		r, err := journal.ReadRequest(tx, s.ID)
		if err != nil {
			return err
		}
		if err := nonce.Spend(tx, r.Nonce, fateOf(to)); err != nil {
			return err
		}
	}
	if err := g.append(tx, e); err != nil {
		return err
	}
	return g.endJob(tx, s)
}

// fateOf says what a nonce was spent on when its step ends in a state.
func fateOf(s op.State) nonce.Fate {
	switch s {
	case op.StateRejected:
		return nonce.Rejected
	case op.StateCancelled:
		return nonce.Cancelled
	case op.StateExpired:
		return nonce.Expired
	default:
		return nonce.Superseded
	}
}
