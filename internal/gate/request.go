package gate

import (
	"cmp"
	"fmt"
	"time"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/log/audit"
	"gated/internal/log/journal"
	"gated/internal/nonce"
)

// issue makes the request of a destructive step: a fresh nonce and the exact bytes
// that an operator signs. With put, the caller writes it as a new request or in
// place of the one before.
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

// reissue gives a waiting request a new payload for the target as the look shows it.
// The old nonce is spent and the signatures are dropped. The id and the state stay.
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
	// The step has asked for a signature, so it stays destructive.
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
	first := r.Requesters[0]
	if r, err = g.issue(tx, s, spec, o, r.Reason, now, journal.PutRequest); err != nil {
		return err
	}
	if err := g.charge(tx, first, requestCost+2*int64(len(r.Payload))+shownCost(o)); err != nil {
		return err
	}
	e := about(audit.Reissued, "gate", s)
	e.Detail, e.Why = why, s.Verdict.Why // the reason for its class may have changed
	return g.append(tx, issued(e, r))
}

// issued adds to an entry what a request asks for, and a digest of what people see
// beside it.
func issued(e audit.Entry, r op.Request) audit.Entry {
	e.Need, e.Payload, e.Digest = journal.EncodeExtra(r.Need), op.SHA256(r.Payload), journal.ShownDigest(r)
	return e
}

// close ends an open step that did not run, with the kind of its entry. It also ends
// the other open steps of its job.
func (g *Gate) close(tx *store.Tx, s op.Step, e audit.Entry) error {
	if err := g.shut(tx, s, e); err != nil {
		return err
	}
	return g.endJob(tx, s)
}

// shut ends an open step that did not run, and spends the nonce of its request.
func (g *Gate) shut(tx *store.Tx, s op.Step, e audit.Entry) error {
	t := op.TransitionOf(string(e.Kind))
	code := cmp.Or(e.Code, t.Code)
	moved, err := journal.Move(tx, s.ID, s.State, t, code, e.Detail, g.clock.Now().Now)
	if err != nil {
		return err
	}
	if !moved {
		return refusal.New(refusal.Conflict, "step %s is no longer %s", s.ID, s.State)
	}
	if s.State == op.StatePending {
		r, err := journal.ReadRequest(tx, s.ID)
		if err != nil {
			return err
		}
		if err := nonce.Spend(tx, r.Nonce, nonce.Fate(t.Nonce)); err != nil {
			return err
		}
	}
	return g.append(tx, e)
}
