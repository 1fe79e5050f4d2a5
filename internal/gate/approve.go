package gate

import (
	"bytes"
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

// approval is a verified envelope on its way to a decision.
type approval struct {
	authz.Approval
	rules *rules
	sha   string
	by    op.Requester
	about audit.Entry

	reason string // the caller's words, which are not signed
}

// Approve counts the signatures of an envelope for the request id. With the last
// signature that the request needs, one transaction authorizes the step and spends
// the nonce. Before that, Approve returns the request with the signatures that are
// missing.
func (g *Gate) Approve(ctx context.Context, by op.Requester, id op.RequestID, e authz.Envelope) (op.Request, error) {
	return g.verified(ctx, by, e, audit.Entry{Job: id.Job.String(), Step: id.String()}, func(a approval) (op.Request, error) {
		return g.approve(ctx, a, id)
	})
}

// ApproveOffline takes an operation that an operator signed before the gate saw it.
// The payload becomes a request, and the signatures approve it. A payload that the
// gate issued itself approves the request that it was issued for.
// A batch approves only what the gate issued, so it is Malformed here.
func (g *Gate) ApproveOffline(ctx context.Context, by op.Requester, e authz.Envelope) (op.Request, error) {
	if e.Batch != nil {
		err := refusal.New(refusal.Malformed, "a batch approves requests that the gate issued, by their ids").At(refusal.StageDecode)
		return op.Request{}, g.refuse(ctx, by, audit.Entry{}, err)
	}
	return g.verified(ctx, by, e, audit.Entry{}, func(a approval) (op.Request, error) {
		var rec nonce.Record
		var known bool
		err := g.view(ctx, func(tx *store.Tx) (err error) {
			rec, known, err = nonce.Lookup(tx, a.Payload.Nonce)
			return err
		})
		if err != nil {
			return op.Request{}, err
		}
		if known {
			return g.approve(ctx, a, rec.Request)
		}
		return g.offline(ctx, a)
	})
}

// verified runs the verification pipeline and then decide. It starts again if trust
// or policy changed in between.
func (g *Gate) verified(ctx context.Context, by op.Requester, e authz.Envelope, about audit.Entry,
	decide func(approval) (op.Request, error)) (op.Request, error) {
	for {
		a := approval{rules: g.rules.Load(), by: by, about: about, reason: e.Reason}
		var err error
		moment := g.clock.Now()
		a.Approval, err = g.verifier(a.rules).Approval(e, moment.Now)
		if err != nil {
			return op.Request{}, g.refuse(ctx, by, about, inDoubt(moment, err))
		}
		a.sha = op.SHA256(a.Bytes)
		a.about.Op, a.about.Target, a.about.Payload = a.Payload.Op, a.Payload.Target.String(), a.sha
		r, err := decide(a)
		if !errors.Is(err, errRulesMoved) {
			return r, err
		}
	}
}

func (g *Gate) verifier(r *rules) authz.Verifier {
	return authz.Verifier{Gate: g.id, Host: g.host, Trust: r.trust, Roles: r.policy.Roles, Skew: Skew, MaxValidity: r.policy.MaxValidity,
		Passkeys: r.policy.Passkeys}
}

// approve decides on a verified envelope for a request that exists.
func (g *Gate) approve(ctx context.Context, a approval, id op.RequestID) (op.Request, error) {
	var r op.Request
	err := g.view(ctx, func(tx *store.Tx) (err error) {
		r, err = g.checkApproval(tx, a, id)
		return err
	})
	if errors.Is(err, errRulesMoved) {
		return r, err // the gate decided nothing
	}
	if err == nil {
		err = g.fresh(ctx, r.Step)
	}
	if err != nil {
		g.renewLate(ctx, a, r, err)
		return r, g.refuse(ctx, a.by, a.about, err)
	}
	err = g.decide(ctx, a.by, a.about, func(tx *store.Tx) error {
		// The target and the records may have changed since the look, so the transaction
		// checks all again.
		if r, err = g.checkApproval(tx, a, id); err != nil {
			return err
		}
		r, err = g.count(tx, a, r)
		crashpoint.Here(crashpoint.SignatureWritten)
		return err
	})
	if err != nil {
		return r, err
	}
	crashpoint.Here(crashpoint.SignatureKept)
	g.wakeJob(ctx, id.Job)
	return r, nil
}

// checkApproval checks the nonce, and then what only the gate can check: role,
// binding, passkeys and touch.
func (g *Gate) checkApproval(tx *store.Tx, a approval, id op.RequestID) (op.Request, error) {
	if g.rules.Load() != a.rules {
		return op.Request{}, errRulesMoved
	}
	if err := checkNonce(tx, a.Payload.Nonce, a.sha, id); err != nil {
		return op.Request{}, err
	}
	r, err := journal.ReadRequest(tx, id)
	if err != nil {
		return r, err
	}
	need, err := a.rules.requirement(r, g.clock.Now().Now)
	if err != nil {
		return r, err
	}
	if err := each(a.Signers, need, inRole); err != nil {
		return r, err
	}
	if !bytes.Equal(r.Payload, a.Bytes) || !g.binds(a.Payload, r.Step) {
		return r, refusal.New(refusal.BindingMismatch, "what was signed is not what %s asks for", id).
			At(refusal.StageBinding).
			About(id, r.Step.State)
	}
	if err := errors.Join(each(a.Signers, need, single), each(a.Signers, need, browsed), each(a.Signers, need, touched),
		each(a.Signers, need, a.rules.apartFrom(r.Requesters...))); err != nil {
		return r, err
	}
	now := g.clock.Now()
	if err := errors.Join(g.timely(a), inTime("the payload", expiry(need, r), now), brief(a, need)); err != nil {
		return r, err
	}
	if r.Step.State != op.StatePending {
		return r, refusal.New(refusal.Replayed, "%s is %s already", id, r.Step.State).At(refusal.StageNonce).
			About(id, r.Step.State)
	}
	return r, inTimeToRun(need, r, append(slices.Clone(r.Signatures), distinct(a.Signers, now.Now)...), now.Now)
}

// timely checks the time once more inside the decision, because the look at the
// target may have taken long.
func (g *Gate) timely(a approval) error {
	moment := g.clock.Now()
	if !moment.Trusted {
		return clockDoubted(moment)
	}
	if a.Batch != nil {
		if err := inTime("the batch", a.Batch.ExpiresAt, moment); err != nil {
			return err
		}
	}
	return inTime("the payload", a.Payload.ExpiresAt, moment)
}

func inTime(what string, expires time.Time, m nonce.Moment) error {
	if m.Now.After(expires.Add(Skew)) {
		return refusal.New(refusal.Expired, "%s expired at %s", what, expires.Format(time.RFC3339)).At(refusal.StageTime).
			WithHint("sign the request as it is now")
	}
	return nil
}

// brief refuses, as ValidityTooLong, a batch that lives for longer than a payload of the request may.
func brief(a approval, need op.Requirement) error {
	if a.Batch == nil {
		return nil
	}
	if life := a.Batch.ExpiresAt.Sub(a.Batch.IssuedAt); life > need.MaxValidity {
		return refusal.New(refusal.ValidityTooLong, "the batch is valid for %s, and for this at most %s is allowed", life, need.MaxValidity).
			At(refusal.StageTime).WithHint("sign a batch with an earlier expires_at")
	}
	return nil
}

// ClockRemedy says what to do if the gate does not trust its clock.
const ClockRemedy = "set the clock right, and the gate goes on by itself; or, if it is right now, stop the daemon and run gated time accept"

// clockDoubted refuses signed work while the gate does not trust its clock.
func clockDoubted(m nonce.Moment) *refusal.Refusal {
	return refusal.New(refusal.Unavailable, "signed work waits: %s", m.Why).At(refusal.StageTime).
		WithHint("%s", ClockRemedy)
}

// inDoubt turns a time refusal into "unavailable" while the gate does not trust its
// clock, because signing again would not help. A payload that expired by a trusted
// clock stays expired.
func inDoubt(m nonce.Moment, err error) error {
	var r *refusal.Refusal
	if m.Trusted || !errors.As(err, &r) || r.Stage != refusal.StageTime || errors.Is(err, refusal.ValidityTooLong) {
		return err
	}
	if errors.Is(err, refusal.Expired) {
		return refusal.New(refusal.Expired, "%s, and signed work waits: %s", r.Detail, m.Why).At(refusal.StageTime).
			WithHint("%s", ClockRemedy)
	}
	return clockDoubted(m)
}

// checkNonce says which request a payload's nonce belongs to. While the request is
// open, only its own bytes may have the nonce. Once the nonce is spent, those bytes
// get the answer how the request ended, and other bytes are replays.
func checkNonce(tx *store.Tx, n, sha string, id op.RequestID) error {
	rec, known, err := nonce.Lookup(tx, n)
	if err != nil {
		return err
	}
	if !known || rec.Request != id && rec.Fate == nonce.Unspent {
		return refusal.New(refusal.BindingMismatch, "this payload was not issued for %s", id).At(refusal.StageNonce).
			WithHint("sign what opsign show %s --payload prints", id)
	}
	if rec.Fate == nonce.Unspent {
		if rec.Payload != sha {
			return refusal.New(refusal.BindingMismatch, "the nonce of %s is in another payload", rec.Request).
				At(refusal.StageNonce)
		}
		return nil
	}
	refused := refusal.New(refusal.Replayed, "this nonce was spent").At(refusal.StageNonce)
	if rec.Payload == sha {
		refused = spentRefusal(rec)
	}
	if rec.Request.Job != 0 {
		if s, err := journal.ReadStep(tx, rec.Request); err == nil {
			refused = refused.About(rec.Request, s.State)
		}
	}
	return refused
}

func spentRefusal(rec nonce.Record) *refusal.Refusal {
	code, words := refusal.Replayed, "was decided already, and an approval counts once"
	switch rec.Fate {
	case nonce.Rejected:
		code, words = refusal.Rejected, "was rejected by an operator"
	case nonce.Cancelled:
		code, words = refusal.Cancelled, "was cancelled by its requester"
	case nonce.Superseded:
		code, words = refusal.Superseded, "was replaced: the wish or the target is another one now"
	case nonce.Expired:
		code, words = refusal.Expired, "expired before it was approved"
	}
	return refusal.New(code, "this payload of %s %s", rec.Request, words).At(refusal.StageNonce).
		WithHint("opsign list shows what waits now")
}

// binds compares a decoded payload with the step that would run, as values.
func (g *Gate) binds(p op.Payload, s op.Step) bool {
	return p.Gate == g.id && p.Host == g.host && p.Op == s.Op && p.Target == s.Target &&
		p.Incarnation == s.Incarnation && p.State == s.Fingerprint && p.Params.Equal(s.Params)
}

// fresh looks at the target again and compares it with what the step was
// planned on.
func (g *Gate) fresh(ctx context.Context, s op.Step) error {
	o, err := g.look(ctx, s.Look())
	if err != nil {
		return err
	}
	if err := stale(s, o); err != nil {
		g.wake(s.Target) // so that its request is issued anew
		return err
	}
	return nil
}

// stale refuses, as StaleTarget, a target that is not the one that the step names.
func stale(s op.Step, o op.Observed) error {
	switch {
	case o.Incarnation != s.Incarnation:
		return refusal.New(refusal.StaleTarget, "%s is not the one that was meant: %s", s.Target, another(s.Target)).
			At(refusal.StageBinding).WithHint("%s", afterAnother(s.Target))
	case o.Missing != "":
		return refusal.New(refusal.StaleTarget, "what %s is about has ended, or is not in %s any more", s.Op, s.Target).
			At(refusal.StageBinding)
	case o.Fingerprint != s.Fingerprint:
		return refusal.New(refusal.StaleTarget, "%s changed since the request was made", s.Target).
			At(refusal.StageBinding).WithHint("%s", afterChange(s.Op))
	}
	return nil
}

// gone reports whether the incarnation, or the part of it, that a step names no
// longer exists. Then its request ends, because a request issued anew would ask
// about something else.
func gone(s op.Step, o op.Observed) bool {
	return o.Incarnation != s.Incarnation || o.Missing != ""
}

// another says how a target of that kind became another incarnation.
func another(t op.Target) string {
	if t.Kind == op.KindCommand {
		return "its program, interpreter, probe, user or entry in gated.yaml is another one now"
	}
	return "it was destroyed or made again since"
}

// afterAnother says what to do if a target is another incarnation.
func afterAnother(t op.Target) string {
	if t.Kind == op.KindCommand {
		return "see who changed it, and what gated commands " + t.Name + " shows now; then ask again, and what is there now is signed"
	}
	return "look at it again; a new request names the new one"
}

// overtaken says why a request ends if the target of its step is gone.
func overtaken(s op.Step, o op.Observed) string {
	if s.Target.Kind == op.KindCommand && o.Incarnation != s.Incarnation {
		return another(s.Target) + ": ask again if it is still wanted"
	}
	return "what it asks about is not what is there any more"
}

// afterChange says what to do if a target has changed since an operator signed for
// it.
func afterChange(name string) string {
	if name == op.ReleaseAll {
		return "it changes for as long as agents work there: end the agents, or have them stop, then ask again"
	}
	return "look at the request again; it is issued anew for the target as it is now"
}

// wakeJob wakes the targets of a job's open steps.
func (g *Gate) wakeJob(ctx context.Context, id op.JobID) {
	var steps []op.Step
	err := g.view(ctx, func(tx *store.Tx) (err error) {
		steps, err = journal.StepsOf(tx, id)
		return err
	})
	if err != nil {
		g.log.Warn("targets were not woken; the next round finds them", "job", id.String(), "error", err)
	}
	g.wakeAll(steps)
}
