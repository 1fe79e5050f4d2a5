package evidence

import (
	"time"

	"gated/internal/base/store"
	"gated/internal/log/audit"
)

// Report returns the steps that ended from since on and before until, for people. A zero time is no bound. It proves nothing.
func (m Maker) Report(tx *store.Tx, since, until time.Time) ([]Step, error) {
	h, ids, err := m.between(tx, since, until)
	if err != nil {
		return nil, err
	}
	out := make([]Step, 0, len(ids))
	for _, id := range ids {
		s := stepOf(h.steps[id])
		s.ID = id
		out = append(out, s)
	}
	return out, nil
}

// stepOf tells of a step by its entries.
func stepOf(entries []audit.Entry) Step {
	last, _ := end(entries)
	first := entries[0]
	s := Step{End: string(last.Kind), Op: last.Op, Target: last.Target, Class: string(last.Class), By: first.By, Reason: first.Reason,
		Asked: stamp(first.Time), Ended: stamp(last.Time)}
	if d := decision(entries); d.Kind != "" {
		s.Signers, s.Decided = d.Signers, stamp(d.Time)
	}
	return s
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
