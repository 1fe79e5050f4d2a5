package life

import (
	"fmt"

	"gated/internal/agents/agent"
	"gated/internal/agents/reserve"
	"gated/internal/base/store"
	"gated/internal/host/signers"
	"gated/internal/log/audit"
	"gated/internal/log/journal"
	"gated/internal/nonce"
	"gated/internal/people/policy"
)

// newLife writes what becomes of a database whose gate gets a new id, for which
// no old signature is good: an end for the time of what waits, so that it is
// issued anew; the end of every registration and reservation; and this machine's
// time, since what an old clock guarded against cannot be replayed under a new
// id. e is the entry of the audit log, but for who did it and when: its kind, the
// new id, and a detail to which the ended are added. Scratch ends with
// scratchWhy. Who calls it binds the id: state.Dir.Bind.
func newLife(tx *store.Tx, at nonce.Reading, e audit.Entry, scratchWhy string) error {
	if err := nonce.SetMark(tx, at); err != nil {
		return err
	}
	if err := journal.ExpireRequests(tx); err != nil {
		return err
	}
	let, err := endAgents(tx)
	if err != nil {
		return err
	}
	e.Time, e.By, e.Detail = at.Wall, signers.StateOwner, e.Detail+let
	if _, err := audit.Append(tx, e); err != nil {
		return err
	}
	return endScratch(tx, e, scratchWhy)
}

// endAgents ends every registration and reservation, and says how many: those
// that are in a database of before may have been given up since, and their paths
// may be somebody else's by now. Agents register and reserve again.
func endAgents(tx *store.Tx) (says string, err error) {
	n, err := agent.Clear(tx)
	if err != nil {
		return "", err
	}
	held, err := reserve.Clear(tx)
	if err != nil || n+held == 0 {
		return "", err
	}
	return fmt.Sprintf("; ended: registrations of agents: %d, reservations: %d", n, held), nil
}

// endScratch ends what might be destroyed unsigned, which the new life does not
// know enough of. life is the entry that began it.
func endScratch(tx *store.Tx, life audit.Entry, why string) error {
	young, err := journal.MayEnd(tx, life.Time.Add(-policy.ScratchMaxAge))
	if err != nil {
		return err
	}
	for _, p := range young {
		if _, err := journal.EndScratch(tx, p.Incarnation, why); err != nil {
			return err
		}
		_, err := audit.Append(tx, audit.Entry{Kind: audit.Promoted, By: signers.StateOwner, Gate: life.Gate, Target: p.Target.String(),
			Incarnation: p.Incarnation, Detail: why, Time: life.Time})
		if err != nil {
			return err
		}
	}
	return nil
}
