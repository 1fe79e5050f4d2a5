package gate

import (
	"strings"
	"time"

	"gated/internal/authz"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/log/journal"
)

// rememberRejection stores the rejection of a request for each of its requesters.
// Their later asks are compared with it.
func (g *Gate) rememberRejection(tx *store.Tx, r op.Request, rej authz.Rejection) error {
	said := op.Rejected{Request: r.ID, Words: rej.Rejection.Reason, At: g.clock.Now().Now}
	for _, s := range rej.Signers {
		said.By = append(said.By, s.Principal)
	}
	wish := journal.Wish(r.Step)
	for i, by := range r.Requesters {
		err := journal.AddRejection(tx, journal.Rejection{Rejected: said, Who: by.String(), Caller: by.Payer(),
			Wish: wish, Reason: journal.DigestReason(r.Reasons[i].Text)})
		if err != nil {
			return err
		}
	}
	return nil
}

// notRejected refuses, as RejectedBefore, a job with a step that operators rejected a
// short time ago, if the same caller asks for the same reason. A caller is a uid, with
// all its agents. The class of the step now makes no difference. Desired sets have a
// rule of their own, in Want.
func (g *Gate) notRejected(tx *store.Tx, sub op.Submission, steps []planned) error {
	holds, now := g.rules.Load().policy.RejectHolds, g.clock.Now().Now
	if holds == 0 || sub.Requester.Source != op.SourceAPI {
		return nil
	}
	caller, since := sub.Requester.Payer(), now.Add(-holds)
	if any, err := journal.HasRejections(tx, caller, since); err != nil || !any {
		return err
	}
	for i, p := range steps {
		r, ok, err := journal.RejectionAfter(tx, caller, journal.Wish(p.step), sub.Reason, since)
		if err != nil {
			return err
		}
		if ok {
			return ofStep(sub, i, rejectedBefore(r, holds))
		}
	}
	return nil
}

// mayAskNow is notRejected for a planned step that would have to ask operators now. The gate's own step that takes
// another one back always may.
func (g *Gate) mayAskNow(tx *store.Tx, s op.Step) error {
	if s.Verdict.Class != op.Destructive || s.Undoes != 0 {
		return nil
	}
	who, why, err := journal.Reasons(tx, s.ID.Job)
	if err != nil {
		return err
	}
	for i, by := range who {
		sub := op.Submission{Requester: by, Reason: why[i].Text}
		if err := g.notRejected(tx, sub, []planned{{step: s}}); err != nil {
			return err
		}
	}
	return nil
}

// rejectedBefore words a rejection that holds for so long. Names and words are in quotes, because others chose them.
func rejectedBefore(r journal.Rejection, holds time.Duration) *refusal.Refusal {
	by := make([]string, len(r.By))
	for i, name := range r.By {
		by[i] = op.ShownName(name)
	}
	words := "without a reason"
	if r.Words != "" {
		words = "with the words " + op.ShownQuoted(clip(r.Words))
	}
	until := r.At.Add(holds + time.Second - 1).UTC().Truncate(time.Second).Format(time.RFC3339)
	return refusal.New(refusal.RejectedBefore,
		"%s rejected the same wish of %s at %s (%s), %s; for the same reason it is refused until %s",
		strings.Join(by, ", "), r.Caller, r.At.UTC().Format(time.RFC3339), r.Request, words, until).
		WithHint("say a new reason (--reason), or wait until %s", until).About(r.Request, op.StateRejected)
}
