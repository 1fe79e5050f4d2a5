package gate

import (
	"context"
	"time"

	"gated/internal/base/crashpoint"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/log/audit"
	"gated/internal/log/journal"
	"gated/internal/nonce"
)

// offline makes a request from a payload that the gate did not issue, and approves
// it with the signatures that came with the payload.
func (g *Gate) offline(ctx context.Context, a approval) (op.Request, error) {
	by := op.Requester{Source: op.SourceOffline, UID: a.by.UID, PID: a.by.PID}
	if a.by.Source == op.SourceHub {
		by = a.by // a hub has no uid on this machine
	}
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
		crashpoint.Here(crashpoint.OfflineWritten)
		return err
	})
	if err != nil {
		return r, err
	}
	crashpoint.Here(crashpoint.OfflineKept)
	g.wakeAll([]op.Step{r.Step})
	return r, nil
}

// KnownPayload returns the request with exactly these bytes as its payload. ok is
// false if there is none now. KnownPayload decides nothing and counts no signature.
func (g *Gate) KnownPayload(ctx context.Context, payload []byte) (id op.RequestID, ok bool, err error) {
	p, err := op.DecodePayload(payload)
	if err != nil {
		return id, false, nil
	}
	err = g.view(ctx, func(tx *store.Tx) error {
		rec, known, err := nonce.Lookup(tx, p.Nonce)
		id, ok = rec.Request, known && rec.Request.Job != 0 && rec.Payload == op.SHA256(payload)
		return err
	})
	return id, ok && err == nil, err
}

// planOffline checks the payload against the catalogue and a look at the target.
func (g *Gate) planOffline(ctx context.Context, by op.Requester, a approval) (planned, error) {
	spec, err := op.Lookup(a.Payload.Op)
	if err != nil {
		return planned{}, err
	}
	if len(a.Signers) == 0 {
		return planned{}, refusal.New(refusal.UnknownSigner, "no signature is by a key that may approve anything").
			At(refusal.StageAllowList)
	}
	for _, s := range a.Signers {
		if s.Role.BuiltIn() && !spec.MayApprove(s.Role) {
			return planned{}, refusal.New(refusal.RoleDenied, "%s signed as %s, which may not approve this",
				op.ShownName(s.Principal), s.Role).At(refusal.StageRole)
		}
	}
	ask := op.Ask{Op: a.Payload.Op, Target: a.Payload.Target, Params: a.Payload.Params}
	p, err := g.plan(ctx, by, ask, nil)
	if err != nil {
		return p, err
	}
	need, err := a.rules.asks(p.spec, p.step, p.observed.Labels, g.clock.Now().Now)
	if err != nil {
		return p, err
	}
	p.need = need
	if err := each(a.Signers, need, counts); err != nil {
		return p, err
	}
	if life := a.Payload.ExpiresAt.Sub(a.Payload.IssuedAt); life > need.MaxValidity {
		return p, refusal.New(refusal.ValidityTooLong, "the payload is valid for %s, and for this at most %s is allowed",
			life, need.MaxValidity).
			At(refusal.StageTime).WithHint("sign one with an earlier expires_at")
	}
	now := g.clock.Now().Now
	if err := inTimeToRun(need, op.Request{ID: p.step.ID, IssuedAt: a.Payload.IssuedAt, ExpiresAt: a.Payload.ExpiresAt}, now); err != nil {
		return p, err
	}
	p.step.Incarnation, p.step.Fingerprint = a.Payload.Incarnation, a.Payload.State
	if err := stale(p.step, p.observed); err != nil {
		return p, err
	}
	if p.step.Verdict.Class == op.Benign {
		// An operator signed it, so it runs like every signed step: once, and only on
		// the target that was signed.
		p.step.Verdict = op.Verdict{Class: op.Destructive, Rule: "signed-offline", Why: "an operator signed it before the gate saw it"}
	}
	return p, nil
}

// insertOffline writes the job, step and request of a signed payload with its
// signatures. If the signatures are enough, it also authorizes the step and records
// the nonce as spent. The payload counts once because its nonce must be new.
func (g *Gate) insertOffline(tx *store.Tx, by op.Requester, a approval, p planned) (op.Request, error) {
	now := g.clock.Now().Now
	id, err := journal.NewJob(tx, by, a.Payload.Reason, now)
	if err != nil {
		return op.Request{}, err
	}
	s := p.step
	s.ID, s.State, s.UpdatedAt = op.StepID{Job: id, Index: 1}, op.StatePending, now
	if makesNew(s.Op) {
		s.Birth = newBirth()
	}
	r := op.Request{ID: s.ID, Requesters: []op.Requester{by}, Reason: a.Payload.Reason, Payload: a.Bytes, Nonce: a.Payload.Nonce,
		Facts: p.observed.Facts, Labels: p.observed.Labels, Need: p.need, Signatures: distinct(a.Signers, now), Proofs: proofsOf(a, now), CreatedAt: now,
		IssuedAt: a.Payload.IssuedAt, ExpiresAt: a.Payload.ExpiresAt, Offline: true}
	r.Step = s
	rec, e := recordOf(r), signedEntry(a, r)
	if p.need.Met(r.Signatures) {
		if err := a.rules.proved(r, now); err != nil {
			return r, err
		}
		s.State, r.AuthorizedAt, rec.Fate, e.Kind = op.StateAuthorized, now, nonce.Used, audit.Approved
		r.Step = s
	}
	if err := journal.AddStep(tx, s); err != nil {
		return r, err
	}
	if err := nonce.Issue(tx, rec); err != nil {
		return r, known(tx, a, err)
	}
	if err := journal.AddRequest(tx, r); err != nil {
		return r, err
	}
	if err := addDistinct(tx, r); err != nil {
		return r, err
	}
	asks := issued(asked(audit.Requested, by, s, a.Payload.Reason), r)
	if s.State == op.StatePending {
		g.present(a.rules, &r, now)
	}
	return r, g.append(tx, asks, e)
}

func proofsOf(a approval, now time.Time) []op.Signed {
	var out []op.Signed
	for _, s := range a.Proofs {
		out = append(out, signedBy(s, now))
	}
	return out
}

// known returns how a payload was decided if that happened between the look and this
// decision.
func known(tx *store.Tx, a approval, refused error) error {
	rec, ok, err := nonce.Lookup(tx, a.Payload.Nonce)
	if err == nil && ok {
		err = checkNonce(tx, a.Payload.Nonce, a.sha, rec.Request)
	}
	if err != nil {
		return err
	}
	return refused
}
