package gate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gated/internal/audit"
	"gated/internal/authz"
	"gated/internal/journal"
	"gated/internal/nonce"
	"gated/internal/op"
	"gated/internal/store"
)

// offline makes a request from a payload that the gate did not issue and
// approves it with the signatures that came with it.
func (g *Gate) offline(ctx context.Context, a approval) (op.Request, error) {
	by := op.Requester{Source: op.SourceOffline, UID: a.by.UID, PID: a.by.PID}
	p, err := g.planOffline(ctx, by, a)
	if err != nil {
		return op.Request{}, g.refuse(ctx, a.by, a.about, err)
	}
	var r op.Request
	err = g.decide(ctx, a.by, a.about, func(tx *store.Tx) error {
		if g.rules.Load() != a.rules {
			return errRulesMoved
		}
		if err := g.timely(a); err != nil {
			return err
		}
		var err error
		r, err = g.insertOffline(tx, by, a, p)
		return err
	})
	if err != nil {
		return r, err
	}
	g.wake(r.Step.Target)
	return r, nil
}

// planOffline checks the payload against the catalogue and the target as it is
// now.
func (g *Gate) planOffline(ctx context.Context, by op.Requester, a approval) (planned, error) {
	spec, err := op.Lookup(a.Payload.Op)
	if err != nil {
		return planned{}, err
	}
	if err := checkRoles(a.Signers, a.rules.policy.Requirement(spec)); err != nil {
		return planned{}, err
	}
	ask := op.Ask{Op: a.Payload.Op, Target: a.Payload.Target, Params: a.Payload.Params}
	p, err := g.plan(ctx, by, ask, nil)
	if err != nil {
		return p, err
	}
	seen := p.step
	p.step.Incarnation, p.step.Fingerprint = a.Payload.Incarnation, a.Payload.State
	if err := stale(p.step, op.Observed{Incarnation: seen.Incarnation, Fingerprint: seen.Fingerprint}); err != nil {
		return p, err
	}
	if p.step.Verdict.Class == op.Benign {
		// It was signed, so it runs as what is signed: once, and bound.
		p.step.Verdict = op.Verdict{Class: op.Destructive, Rule: "signed-offline", Why: "an operator signed it before the gate saw it"}
	}
	return p, nil
}

// insertOffline writes the job, step and request of a signed payload together
// with its signatures. Where these are enough, the step is authorized and the
// nonce spent as they are inserted: that the nonce was not known is then what
// makes it count once.
func (g *Gate) insertOffline(tx *store.Tx, by op.Requester, a approval, p planned) (op.Request, error) {
	now := g.clock.Now().Now
	id, err := journal.NewJob(tx, by, a.Payload.Reason, now)
	if err != nil {
		return op.Request{}, err
	}
	s := p.step
	s.ID, s.State, s.UpdatedAt = op.StepID{Job: id, Index: 1}, op.StatePending, now
	if s.Op == "guest.create" {
		s.Birth = newBirth()
	}
	need := a.rules.policy.Requirement(p.spec)
	r := op.Request{ID: s.ID, Requesters: []op.Requester{by}, Reason: a.Payload.Reason, Payload: a.Bytes, Nonce: a.Payload.Nonce,
		Facts: p.observed.Facts, Roles: need.Roles, Needed: need.Threshold, Signatures: distinct(a.Signers, now), CreatedAt: now,
		IssuedAt: a.Payload.IssuedAt, ExpiresAt: a.Payload.ExpiresAt, Offline: true}
	rec, e := recordOf(r), signedEntry(a, s, r.Signatures)
	if r.Missing() == 0 {
		s.State, rec.Fate, e.Kind = op.StateAuthorized, nonce.Used, audit.Approved
	}
	r.Step = s
	if err := journal.AddStep(tx, s); err != nil {
		return r, err
	}
	if err := nonce.Issue(tx, rec); err != nil {
		return r, known(tx, a, err)
	}
	if err := journal.AddRequest(tx, r); err != nil {
		return r, err
	}
	for _, signed := range r.Signatures {
		if isNew, err := journal.AddSignature(tx, r.ID, signed); err != nil || !isNew {
			return r, errors.Join(err, fmt.Errorf("a signature of %s is counted twice", r.ID))
		}
	}
	return r, g.append(tx, asked(audit.Requested, by, s, a.Payload.Reason), e)
}

// distinct returns the signatures that count: one of each person, with a key of
// their own.
func distinct(signers []authz.Signer, now time.Time) []op.Signed {
	var out []op.Signed
	people, keys := map[string]bool{}, map[string]bool{}
	for _, s := range signers {
		if people[s.Principal] || keys[s.Key] {
			continue
		}
		people[s.Principal], keys[s.Key] = true, true
		out = append(out, op.Signed{Principal: s.Principal, Role: s.Role, Key: s.Key, Armor: s.Armor, At: now})
	}
	return out
}

// known says of a payload that was decided between the look and the decision
// what became of it, like of one that was decided before.
func known(tx *store.Tx, a approval, refusal error) error {
	rec, ok, err := nonce.Lookup(tx, a.Payload.Nonce)
	if err == nil && ok {
		err = checkNonce(tx, a.Payload.Nonce, a.sha, rec.Request)
	}
	if err != nil {
		return err
	}
	return refusal
}
