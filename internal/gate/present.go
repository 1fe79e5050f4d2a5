package gate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"gated/internal/base/crashpoint"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/log/audit"
	"gated/internal/log/journal"
	"gated/internal/nonce"
)

// Shown is Request for people who are about to decide. If the request waits, the
// facts are those of a new look. The data that would be lost may have grown since
// the request was made, although nothing that a signature covers has changed. If the
// look fails or shows another target, the old facts stay.
func (g *Gate) Shown(ctx context.Context, id op.RequestID) (op.Request, error) {
	r, err := g.Request(ctx, id)
	if err != nil || r.Step.State != op.StatePending {
		return r, err
	}
	o, err := g.look(ctx, r.Step.Look())
	if err == nil && stale(r.Step, o) == nil {
		r.Facts, r.FactsAt = o.Facts, g.clock.Now().Now
	}
	return r, nil
}

// present fills in what people see of a waiting request: what it asks for, which
// signatures are missing, and which people could give them.
func (g *Gate) present(inForce *rules, r *op.Request, now time.Time) {
	need, err := inForce.requirement(*r, now)
	if err != nil {
		return // the next approval refuses it or issues it anew
	}
	r.Need = need
	if r.Step.State != op.StatePending || inForce.trust.Blocked() != nil {
		return
	}
	r.Signatures, _ = split(inForce, need, r.Signatures, now)
	r.Could = map[op.Role][]string{}
	for _, role := range need.Roles() {
		for _, who := range inForce.trust.Could(role, need.Touch(role), now) {
			if !slices.ContainsFunc(r.Signatures, func(s op.Signed) bool { return s.Principal == who && s.Role == role }) {
				r.Could[role] = append(r.Could[role], who)
			}
		}
	}
	owed, err := inForce.owed(*r, now)
	if err != nil {
		return
	}
	for _, o := range owed {
		r.Owed = append(r.Owed, o.Key+" "+string(o.Role))
	}
}

// knows returns what people should see of a step before they sign it and only the
// gate can tell. For a rotation that is which keys come and go. For a restored or
// deleted snapshot or backup it is who asked for that copy.
func (g *Gate) knows(ctx context.Context, l op.Look, o op.Observed) []op.Fact {
	if l.Op == op.Rotate {
		return g.rotationFacts(l.Params)
	}
	spec, err := op.Lookup(l.Op)
	if err != nil || spec.Copy == "" || !o.Present || o.Missing != "" {
		return nil
	}
	if o.Copy == nil {
		return []op.Fact{{Name: spec.Copy, Text: "the back end tells nothing of it"}}
	}
	return []op.Fact{{Name: spec.Copy + " made by", Text: g.maker(ctx, o.Target, *o.Copy)}}
}

func (g *Gate) rotationFacts(p op.Params) []op.Fact {
	inForce, now := g.rules.Load(), g.clock.Now().Now
	r, err := inForce.rotation(p, now)
	if err != nil {
		return nil // the gate refuses it, or issues its request anew
	}
	var out []op.Fact
	for _, e := range inForce.trust.Effects(r, now) {
		out = append(out, e.Fact())
	}
	return out
}

// clocksApart is how far a back end's clock may differ from the gate's. A larger
// difference means that the step did not make the copy.
const clocksApart = 2 * time.Minute

// maker says who asked for a copy, by this gate's own records. It finds the step
// that made a copy of that name at that time. If the back end names its copies
// itself, the time alone decides. The gate does not believe a back end's own word on
// the maker.
func (g *Gate) maker(ctx context.Context, t op.Target, c op.Copy) string {
	if c.Made.IsZero() {
		return "not known: the back end does not say when it was made"
	}
	by, params := "guest.backup", op.Params(nil)
	if c.Kind == "snapshot" {
		by, params = "guest.snapshot", op.Params{"snapshot": c.Name}
	}
	var who []string
	var step op.StepID
	err := g.view(ctx, func(tx *store.Tx) error {
		s, err := journal.CopyMadeBy(tx, t, by, params, c.Made.Add(-clocksApart), c.Made.Add(clocksApart))
		if err != nil {
			return err
		}
		step = s.ID
		all, err := journal.Requesters(tx, s.ID.Job)
		for _, r := range all {
			who = append(who, r.String())
		}
		return err
	})
	switch {
	case errors.Is(err, refusal.UnknownTarget):
		return "other hands than this gate's: it has no record of a step that made it"
	case err != nil:
		return "not known: this gate's records cannot be read"
	}
	return strings.Join(who, ", ") + " by " + step.String()
}

// CanGo says, for people, which caller may still end a target without a signature,
// and until when. The target's agent may while the target is scratch. The job that
// made the target may while it is open and no other step used the target. CanGo
// returns nothing if only a signature can end the target.
func (g *Gate) CanGo(ctx context.Context, o op.Observed) (facts []op.Fact, err error) {
	err = g.view(ctx, func(tx *store.Tx) error { facts, err = g.canGo(tx, o); return err })
	return facts, err
}

func (g *Gate) canGo(tx *store.Tx, o op.Observed) ([]op.Fact, error) {
	p, err := journal.ReadProvenance(tx, o.Incarnation)
	if err != nil || p == nil || !o.Present {
		return nil, err
	}
	destroy := op.Step{Op: "guest.destroy", Target: o.Target, Incarnation: o.Incarnation, Params: op.Params{}}
	until := p.CreatedAt.Add(g.rules.Load().policy.ScratchMaxAge)
	var facts []op.Fact
	say := func(by op.Requester, s op.Step, end time.Time, text string) error {
		v, err := g.classify(tx, by, s, o)
		if err == nil && v.Class == op.Benign {
			facts = append(facts, op.Fact{Name: "can still go", Text: fmt.Sprintf("until %s %s", end.UTC().Format(time.RFC3339), text)})
		}
		return err
	}
	if p.Scratch {
		end := until
		if p.ScratchUntil.Before(end) {
			end = p.ScratchUntil
		}
		err = say(op.Requester{Source: op.SourceAPI, Agent: p.Agent}, destroy, end, "agent "+p.Agent+" may destroy it unsigned: it is its scratch")
		if err != nil {
			return nil, err
		}
	}
	job, err := journal.ReadJob(tx, p.Job)
	if err != nil || !job.FinishedAt.IsZero() {
		return facts, err
	}
	destroy.ID.Job, destroy.Undoes = p.Job, 1
	err = say(op.Requester{Source: op.SourceGate}, destroy, until,
		fmt.Sprintf("job %s takes it back unsigned if it fails, unless another step uses it", p.Job))
	return facts, err
}

// offline makes a request from a payload that the gate did not issue, and approves
// it with the signatures that came with the payload.
func (g *Gate) offline(ctx context.Context, a approval) (op.Request, error) {
	by := op.Requester{Source: op.SourceOffline, UID: a.by.UID, PID: a.by.PID, Set: a.by.Set}
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

// planOffline checks the payload against the catalogue and a look at the target. The transaction decides the class.
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
	p, err := g.draft(ctx, by, ask, nil)
	if err = cmp.Or(err, p.hindered); err != nil {
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
	return p, stale(p.step, p.observed)
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
	if s.Verdict, err = g.classify(tx, by, s, p.observed); err != nil {
		return op.Request{}, err
	}
	if s.Verdict.Class == op.Benign {
		// An operator signed it, so it runs like every signed step: once, and only on
		// the target that was signed.
		s.Verdict = op.Verdict{Class: op.Destructive, Rule: "signed-offline", Why: "an operator signed it before the gate saw it"}
	}
	s.ID, s.State, s.UpdatedAt = op.StepID{Job: id, Index: 1}, op.StatePending, now
	if makesNew(s.Op) {
		s.Birth = newBirth()
	}
	r := op.Request{ID: s.ID, Requesters: []op.Requester{by}, Reason: a.Payload.Reason,
		Reasons: []op.Reason{{By: by.String(), Text: a.Payload.Reason}}, Payload: a.Bytes, Nonce: a.Payload.Nonce,
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
