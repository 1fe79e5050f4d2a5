package gate

import (
	"slices"

	"gated/internal/journal"
	"gated/internal/op"
	"gated/internal/store"
)

// maxOpenPerTarget bounds the open steps of one target: each look at what may
// run next reads them all.
const maxOpenPerTarget = 128

// maxRotations bounds the open rotations of one requester: what each would make
// of the file is worked out whenever they are listed.
const maxRotations = 4

// checkRotations is checkLimit for steps on the trust file.
func checkRotations(tx *store.Tx, by op.Requester, more int) error {
	open, err := journal.OpenSteps(tx, op.Signers)
	if err != nil {
		return err
	}
	mine := 0
	for _, s := range open {
		who, err := journal.Requesters(tx, s.ID.Job)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(who, func(r op.Requester) bool { return r.String() == by.String() }) {
			mine++
		}
	}
	if mine+more > maxRotations {
		return op.Refuse(op.OverLimit, "%s has %d rotations open, and %d is the most", by, mine, maxRotations).
			WithHint("approve or reject some (opsign list), or cancel some (gated cancel)")
	}
	return nil
}

// checkLimit refuses, as OverLimit, what would open more than anybody can want.
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
		if err != nil {
			return err
		}
		if n+more > maxOpenPerTarget {
			return op.Refuse(op.OverLimit, "%s has %d open steps, and %d is the most", t, n, maxOpenPerTarget).
				WithHint("wait for some to end, or cancel some (gated jobs, gated cancel)")
		}
	}
	if asks == 0 {
		return nil
	}
	limit := g.rules.Load().policy.OpenPerSource
	n, err := journal.PendingOf(tx, by.String())
	if err == nil && n+asks > limit {
		err = op.Refuse(op.OverLimit, "%s has %d requests open, and %d is the most", by, n, limit).
			WithHint("approve or reject some (opsign list), or cancel some (gated cancel)")
	}
	return err
}
