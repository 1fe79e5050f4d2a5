package journal

import (
	"database/sql"
	"errors"
	"fmt"
	"time"

	"gated/internal/base/op"
	"gated/internal/base/store"
)

// SchemaDrills has the drills found without a look at all steps.
const SchemaDrills = `
CREATE INDEX steps_drill ON steps(state, job) WHERE kind = 'drill';
`

// DrillRecord is how one drill went.
type DrillRecord struct {
	Step       op.Step
	Requesters []op.Requester
	Asked      time.Time // when the request was made
	// Ended is the time of the last needed signature, or when the drill ended without. It is zero while the
	// drill waits for signatures.
	Ended  time.Time
	Signed []op.Signed // in the order in which they came
}

// Took returns the time from the request to the last needed signature, or to the end without; 0 while the drill waits.
func (d DrillRecord) Took() time.Duration {
	if d.Ended.IsZero() {
		return 0
	}
	return max(d.Ended.Sub(d.Asked), 0)
}

// Drills has the newest drill of each sort, nil for none.
type Drills struct {
	Open       *DrillRecord
	Signed     *DrillRecord // the newest one that succeeded
	Unanswered *DrillRecord // the newest one that ended without all signatures, or not as signed
}

// ReadDrills returns the newest drills. It reads as much whatever the length of the history.
func ReadDrills(tx *store.Tx) (d Drills, err error) {
	for _, one := range []struct {
		to     **DrillRecord
		states []op.State
	}{
		{&d.Open, []op.State{op.StatePlanned, op.StatePending, op.StateAuthorized, op.StateDispatched}},
		{&d.Signed, []op.State{op.StateSucceeded}},
		{&d.Unanswered, []op.State{op.StateExpired, op.StateRejected, op.StateCancelled, op.StateSuperseded, op.StateRefused,
			op.StateFailed, op.StateInterrupted}},
	} {
		if *one.to, err = newestDrill(tx, one.states); err != nil {
			return d, err
		}
	}
	return d, nil
}

// newestDrill returns the newest drill in one of the states.
func newestDrill(tx *store.Tx, states []op.State) (*DrillRecord, error) {
	var job int64
	for _, state := range states {
		var found int64
		err := tx.QueryRow(`SELECT job FROM steps WHERE kind = 'drill' AND state = ? ORDER BY job DESC LIMIT 1`, string(state)).Scan(&found)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return nil, fmt.Errorf("read drills: %w", err)
		}
		job = max(job, found)
	}
	if job == 0 {
		return nil, nil
	}
	return drillOf(tx, op.StepID{Job: op.JobID(job), Index: 1})
}

func drillOf(tx *store.Tx, id op.StepID) (*DrillRecord, error) {
	s, err := ReadStep(tx, id)
	if err != nil {
		return nil, err
	}
	r, err := RequestOf(tx, s)
	if err != nil {
		return nil, err
	}
	d := &DrillRecord{Step: s, Requesters: r.Requesters, Asked: r.CreatedAt, Signed: r.Signatures}
	switch s.State {
	case op.StatePlanned, op.StatePending:
	case op.StateAuthorized, op.StateDispatched, op.StateSucceeded:
		for _, by := range d.Signed {
			if by.At.After(d.Ended) {
				d.Ended = by.At
			}
		}
	default:
		d.Ended = s.UpdatedAt
	}
	return d, nil
}
