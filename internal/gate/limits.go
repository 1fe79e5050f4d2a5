package gate

import (
	"slices"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/log/journal"
)

// The bounds of open steps of one target. Each look for the next step reads them
// all. A step can wait for a signature for days. So steps of uids must leave room
// for operators and desired state.
const (
	maxOpenPerTarget = 128
	openForOperators = 32               // of these, only for operators and desired state
	maxOpenPerPayer  = op.MaxSteps + 16 // of a uid that is not an operator's: a whole job, and some steps more
)

// maxRotations is the most rotations that one requester may have open. Each listing
// computes what every one of them would make of the file.
const maxRotations = 4

// checkRotations refuses, as OverLimit, more open steps on the trust file than a
// requester may have.
func checkRotations(tx *store.Tx, by op.Requester, more int) error {
	open, err := journal.OpenSteps(tx, op.Signers)
	if err != nil {
		return err
	}
	mine, err := askedBy(tx, open, func(r op.Requester) bool { return r.String() == by.String() })
	if err != nil {
		return err
	}
	if mine+more > maxRotations {
		return refusal.New(refusal.OverLimit, "%s has %d rotations open, and %d is the most", by, mine, maxRotations).
			WithHint("approve or reject some (opsign list), or cancel some (gated cancel)")
	}
	return nil
}

// checkLimit refuses, as OverLimit, a job with which too many steps would be open.
func (g *Gate) checkLimit(tx *store.Tx, by op.Requester, steps []planned) error {
	asks := 0
	opens := map[op.Target]int{}
	for _, p := range steps {
		if p.step.Verdict.Class == op.Destructive {
			asks++
		}
		opens[p.step.Target]++
	}
	if n := opens[op.Signers]; n > 0 {
		if err := checkRotations(tx, by, n); err != nil {
			return err
		}
	}
	for t, more := range opens {
		n, err := journal.CountOpen(tx, t)
		if err == nil {
			err = g.checkTarget(tx, by, t, n, more)
		}
		if err != nil {
			return err
		}
	}
	if err := g.checkSnapshots(tx, by, steps); err != nil {
		return err
	}
	if asks == 0 {
		return nil
	}
	return g.checkPending(tx, by, asks)
}

// checkTarget refuses, as OverLimit, more steps on a target than there is room for
// beside the n open steps.
func (g *Gate) checkTarget(tx *store.Tx, by op.Requester, t op.Target, n, more int) error {
	limit := maxOpenPerTarget
	if !g.asksAsOperator(by) {
		limit -= openForOperators
	}
	if n+more > limit {
		return targetFull(t, n, "", limit)
	}
	if n+more <= maxOpenPerPayer || g.asksAsOperator(by) {
		return nil
	}
	open, err := journal.OpenSteps(tx, t)
	if err != nil {
		return err
	}
	mine, err := askedBy(tx, open, func(r op.Requester) bool { return payer(r) == payer(by) })
	if err == nil && mine+more > maxOpenPerPayer {
		err = targetFull(t, mine, " of "+payer(by), maxOpenPerPayer)
	}
	return err
}

// targetFull refuses another step on a target with n open steps. of says, in words,
// which steps n counts.
func targetFull(t op.Target, n int, of string, limit int) error {
	return refusal.New(refusal.OverLimit, "%s has %d open steps%s, and %d is the most", t, n, of, limit).
		WithHint("wait for some to end, or cancel some (gated jobs, gated cancel)")
}

// askedBy counts the steps with a requester that is accepts.
func askedBy(tx *store.Tx, steps []op.Step, is func(op.Requester) bool) (n int, err error) {
	asked := map[op.JobID]bool{}
	for _, s := range steps {
		if _, known := asked[s.ID.Job]; !known {
			all, err := journal.Requesters(tx, s.ID.Job)
			if err != nil {
				return 0, err
			}
			asked[s.ID.Job] = slices.ContainsFunc(all, is)
		}
		if asked[s.ID.Job] {
			n++
		}
	}
	return n, nil
}

// checkPending refuses, as OverLimit, more open requests than the policy allows one
// requester.
func (g *Gate) checkPending(tx *store.Tx, by op.Requester, more int) error {
	limit := g.rules.Load().policy.OpenPerSource
	n, err := journal.PendingOf(tx, by.String())
	if err == nil && n+more > limit {
		err = refusal.New(refusal.OverLimit, "%s has %d requests open, and %d is the most", by, n, limit).
			WithHint("approve or reject some (opsign list), or cancel some (gated cancel)")
	}
	return err
}
