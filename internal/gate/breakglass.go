package gate

import (
	"context"
	"errors"
	"slices"

	"gated/internal/base/crashpoint"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/log/audit"
	"gated/internal/log/journal"
)

// openIncident opens an incident if one of the signatures that authorize a step is of
// break-glass. It refuses, as OverLimit, a step above the number of incidents that may be open.
func (g *Gate) openIncident(tx *store.Tx, inForce *rules, r op.Request) error {
	if !slices.ContainsFunc(r.Signatures, func(s op.Signed) bool { return s.Role == op.BreakGlass }) {
		return nil
	}
	open, err := journal.CountIncidents(tx)
	if err != nil {
		return err
	}
	// Without the section no signature of break-glass counts, so most is never 0 then.
	most := 0
	if b := inForce.policy.BreakGlass; b != nil {
		most = b.AtMost
	}
	if open >= most {
		return refusal.New(refusal.OverLimit, "%d incidents of break-glass are open, and %d is the most", open, most).
			At(refusal.StagePolicy).WithHint("an operator looks at what was done, and closes them: gated incidents review")
	}
	return journal.OpenIncident(tx, r.ID, g.clock.Now().Now)
}

// Incidents returns the incidents of break-glass that are open.
func (g *Gate) Incidents(ctx context.Context) (in journal.Incidents, err error) {
	err = g.view(ctx, func(tx *store.Tx) error {
		in, err = journal.ReadIncidents(tx)
		return err
	})
	return in, err
}

// checkReviews refuses, as Conflict, a review while no incident has ended.
func checkReviews(tx *store.Tx) error {
	in, err := journal.ReadIncidents(tx)
	if err != nil || len(in.Ended) > 0 {
		return err
	}
	if len(in.UnderWay) > 0 {
		id := in.UnderWay[0].Request.ID
		return refusal.New(refusal.Conflict, "the break-glass step %s has not ended, so there is nothing to review yet", id).
			WithHint("wait for its end (gated jobs %s), or stop it: opsign reject %s --reason TEXT", id.Job, id)
	}
	return refusal.New(refusal.Conflict, "no incident is open, so there is nothing to review")
}

// Review closes the incidents that the step of a used permit is about. One transaction
// closes them and writes the audit entry. A permit that is unused or for another
// operation is NotAllowed. If other incidents have ended meanwhile, it is StaleTarget.
func (g *Gate) Review(ctx context.Context, p Permit) error {
	if !p.allows(g, op.Review) {
		return refusal.New(refusal.NotAllowed, "there is no used permit for this review")
	}
	s := p.core.step
	err := g.update(ctx, func(tx *store.Tx) error {
		in, err := journal.ReadIncidents(tx)
		if err != nil {
			return err
		}
		if in.Fingerprint() != s.Fingerprint {
			return refusal.New(refusal.StaleTarget, "other incidents are open now than those that were signed").
				At(refusal.StageBinding).WithHint("ask again: gated incidents review")
		}
		closed, err := journal.CloseIncidents(tx, in, s.ID, g.clock.Now().Now)
		e := about(audit.Reviewed, "gate", s)
		e.Incidents = closed
		err = errors.Join(err, g.append(tx, e))
		crashpoint.Here(crashpoint.ReviewWritten)
		return err
	})
	if err == nil {
		crashpoint.Here(crashpoint.ReviewKept)
	}
	return g.machine(err)
}

// asksAlone refuses, as NotAllowed, an operation for operators that another caller asks for. Others could tire the people
// who sign, and a payload that was signed before the gate saw it shows no fact that was looked at.
func (g *Gate) asksAlone(by op.Requester, spec op.Spec) error {
	if spec.Kind != op.KindDrill && spec.Kind != op.KindIncident || g.operator(by) {
		return nil
	}
	return refusal.New(refusal.NotAllowed, "%s may not ask for %s: an operator on the socket does", by, spec.Name).
		WithHint("an operator of the gate says gated drill, or gated incidents review")
}

// ofItsOwn refuses, as BadParams, a job in which such an operation has other steps beside it. A drill would measure how long
// they take, and a review would wait for them.
func ofItsOwn(asks []op.Ask) error {
	if len(asks) < 2 {
		return nil
	}
	for _, a := range asks {
		if a.Op == op.Drill || a.Op == op.Review {
			return refusal.New(refusal.BadParams, "%s is a job of its own, without other steps", a.Op)
		}
	}
	return nil
}
