package journal_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/store"
	"gated/internal/base/store/storetest"
	"gated/internal/log/journal"
	"gated/internal/test/must"
)

// reads are questions to the journal.
func reads(r op.Request) map[string]func(*store.Tx) error {
	read := func(_ any, err error) error { return err }
	id, step, target := r.ID, r.Step, r.Step.Target
	all := journal.Range{First: 1, Last: id.Job}
	never := func(op.StepID) bool { return false }
	return map[string]func(*store.Tx) error{
		"job":          func(tx *store.Tx) error { return read(journal.ReadJob(tx, id.Job)) },
		"shown job":    func(tx *store.Tx) error { return read(journal.ReadShownJob(tx, id.Job)) },
		"jobs":         func(tx *store.Tx) error { return read(journal.ReadJobs(tx, journal.Filter{Limit: 5})) },
		"count":        func(tx *store.Tx) error { return read(journal.Count(tx)) },
		"requesters":   func(tx *store.Tx) error { return read(journal.Requesters(tx, id.Job)) },
		"request":      func(tx *store.Tx) error { return read(journal.ReadRequest(tx, id)) },
		"requests":     func(tx *store.Tx) error { return read(journal.ReadRequests(tx, journal.RequestFilter{})) },
		"last signed":  func(tx *store.Tx) error { return read(journal.LastSigned(tx, id)) },
		"shown":        func(tx *store.Tx) error { _, _, err := journal.ShownAt(tx, id); return err },
		"all shown":    func(tx *store.Tx) error { return read(journal.ShownRequests(tx, 5)) },
		"delayed":      func(tx *store.Tx) error { return read(journal.IsDelayed(tx, id)) },
		"waiting":      func(tx *store.Tx) error { return read(journal.ReadWaiting(tx)) },
		"step":         func(tx *store.Tx) error { return read(journal.ReadStep(tx, id)) },
		"open steps":   func(tx *store.Tx) error { return read(journal.OpenSteps(tx, target)) },
		"open of":      func(tx *store.Tx) error { return read(journal.OpenOf(tx, step.Op)) },
		"open targets": func(tx *store.Tx) error { return read(journal.OpenTargets(tx)) },
		"ends":         func(tx *store.Tx) error { return read(journal.EndsOf(tx, step.Incarnation)) },
		"undo":         func(tx *store.Tx) error { return read(journal.Undo(tx, id)) },
		"busy":         func(tx *store.Tx) error { return read(journal.Busy(tx, target)) },
		"pending":      func(tx *store.Tx) error { return read(journal.PendingOf(tx, uid.String())) },
		"rejected":     func(tx *store.Tx) error { _, _, err := journal.Rejected(tx, step); return err },
		"made with":    func(tx *store.Tx) error { return read(journal.MadeWith(tx, step.Birth)) },
		"provenance":   func(tx *store.Tx) error { return read(journal.ReadProvenance(tx, step.Incarnation)) },
		"may end":      func(tx *store.Tx) error { return read(journal.MayEnd(tx, time.Time{})) },
		"incidents":    func(tx *store.Tx) error { return read(journal.ReadIncidents(tx)) },
		"drills":       func(tx *store.Tx) error { return read(journal.ReadDrills(tx)) },
		"backups":      func(tx *store.Tx) error { return read(journal.ReadBackups(tx)) },
		"trusts":       func(tx *store.Tx) error { return read(journal.Trusts(tx)) },
		"sets":         func(tx *store.Tx) error { return read(journal.ReadSets(tx)) },
		"snapshots":    func(tx *store.Tx) error { return read(journal.SnapshotsBy(tx, target, uid.String())) },
		"rows":         func(tx *store.Tx) error { return read(journal.DumpRange(tx, all)) },
		"rows like": func(tx *store.Tx) error {
			return read(journal.DumpLike(tx, all, []journal.Dump{{Table: "jobs", Columns: []string{"id"}}}))
		},
		"archived":   func(tx *store.Tx) error { return read(journal.CountArchived(tx, 1)) },
		"segment":    func(tx *store.Tx) error { return read(journal.SegmentOf(tx, id.Job)) },
		"wrong runs": func(tx *store.Tx) error { return read(journal.WrongRuns(tx)) },
		"needed":     func(tx *store.Tx) error { return read(journal.Needed(tx, id.Job, now, never, nil)) },
	}
}

// TestEveryReadThatFails: a question does not answer with a part. If a statement of it fails, so does the question.
func TestEveryReadThatFails(t *testing.T) {
	var fault storetest.Fault
	s := newStoreThat(t, fault.Next)
	var r op.Request
	update(t, s, func(tx *store.Tx) {
		for range 3 { // the second is in a segment
			add(t, tx, uid, step(0, 0, op.StateSucceeded))
		}
		require.NoError(t, journal.AddArchived(tx, 1, []journal.Range{{First: 2, Last: 2}}))
		id := op.RequestID{Job: add(t, tx, uid, step(0, 0, op.StatePending)), Index: 1}
		r = op.Request{ID: id, Step: must.Get(journal.ReadStep(tx, id))(t), Payload: []byte("p")}
		require.NoError(t, journal.AddRequest(tx, r))
	})
	fault.EachReadFails(t, s, reads(r))
}
