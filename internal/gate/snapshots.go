package gate

import (
	"slices"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/log/journal"
)

// opSnapshot is the step that adds a snapshot. It is benign, and each snapshot takes
// space on the guests' disk.
const opSnapshot = "guest.snapshot"

// checkSnapshots refuses, as OverLimit, more snapshots than one requester may have
// on one guest. It counts those that exist, those that wait, and those that the job
// adds.
func (g *Gate) checkSnapshots(tx *store.Tx, by op.Requester, steps []planned) error {
	if g.quotas.Snapshots == 0 || payer(by) == "" {
		return nil
	}
	adds := map[op.Target]int{}
	for _, p := range steps {
		if p.step.Op != opSnapshot || p.step.Verdict.Class == op.Destructive {
			continue
		}
		t := p.step.Target
		if adds[t] == 0 {
			n, err := g.countSnapshots(tx, by, t, p.observed)
			if err != nil {
				return err
			}
			waiting, err := openSnapshots(tx, by, t)
			if err != nil {
				return err
			}
			adds[t] = n + waiting
		}
		if adds[t]++; adds[t] > g.quotas.Snapshots {
			return g.tooManySnapshots(by, t)
		}
	}
	return nil
}

func (g *Gate) tooManySnapshots(by op.Requester, t op.Target) error {
	return refusal.New(refusal.OverLimit, "%s has %d snapshots of %s, and that is the most", payer(by),
		g.quotas.Snapshots, t).
		WithHint("delete some (gated submit guest.snapshot-delete, which an operator signs); limits.snapshots_per_guest in gated.yaml is the bound")
}

// countSnapshots returns how many of a requester's snapshots of a target the look
// shows.
func (g *Gate) countSnapshots(tx *store.Tx, by op.Requester, t op.Target, o op.Observed) (n int, err error) {
	mine, err := journal.SnapshotsBy(tx, t, payer(by))
	for _, name := range mine {
		if slices.Contains(o.Snapshots, name) {
			n++
		}
	}
	return n, err
}

func openSnapshots(tx *store.Tx, by op.Requester, t op.Target) (n int, err error) {
	open, err := journal.OpenSteps(tx, t)
	if err != nil {
		return 0, err
	}
	for _, s := range open {
		if s.Op != opSnapshot {
			continue
		}
		who, err := journal.Requesters(tx, s.ID.Job)
		if err != nil {
			return 0, err
		}
		if slices.ContainsFunc(who, func(r op.Requester) bool { return payer(r) == payer(by) }) {
			n++
		}
	}
	return n, nil
}

// snapshotFits checks the quota once more at the dispatch, because no other step of
// the target runs during that look. It deletes the records of snapshots that are
// gone.
func (g *Gate) snapshotFits(tx *store.Tx, by op.Requester, s op.Step, now op.Observed) error {
	if s.Op != opSnapshot || g.quotas.Snapshots == 0 || payer(by) == "" {
		return nil
	}
	mine, err := journal.SnapshotsBy(tx, s.Target, payer(by))
	if err != nil {
		return err
	}
	n := 0
	for _, name := range mine {
		if slices.Contains(now.Snapshots, name) {
			n++
		} else if err := journal.ForgetSnapshot(tx, s.Target, name); err != nil {
			return err
		}
	}
	if n >= g.quotas.Snapshots {
		return g.tooManySnapshots(by, s.Target)
	}
	return nil
}

// countSnapshot records which requester owns the snapshot that a step made.
func (g *Gate) countSnapshot(tx *store.Tx, s op.Step) error {
	if s.Op != opSnapshot {
		return nil
	}
	who, err := journal.Requesters(tx, s.ID.Job)
	if err != nil || len(who) == 0 || payer(who[0]) == "" {
		return err
	}
	return journal.AddSnapshot(tx, s.Target, s.Params.Str("snapshot"), payer(who[0]), s.ID.Job)
}
