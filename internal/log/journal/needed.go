package journal

import (
	"math"
	"time"

	"gated/internal/base/op"
	"gated/internal/base/store"
)

// AllJobs is the range of every job.
var AllJobs = Range{First: 0, Last: math.MaxInt64}

// nearby is how many jobs may lie between two ranges that are read together.
const nearby = 64

// FirstNeeded returns the first job of ordered ranges that has to stay, and why; "" if all of them may go. It says the same as
// Needed of each, with few statements: it runs in a transaction that decisions wait for.
func FirstNeeded(tx *store.Tx, all []Range, before time.Time, closed func(op.StepID) bool) (job op.JobID, why string, err error) {
	if len(all) == 0 {
		return 0, "", nil
	}
	referred, err := Referred(tx, Range{all[0].First, all[len(all)-1].Last})
	if err != nil {
		return 0, "", err
	}
	for len(all) > 0 {
		n := 1
		for n < len(all) && all[n].First-all[n-1].Last <= nearby {
			n++
		}
		job, why, err = firstNeeded(tx, all[:n], before, closed, referred)
		if err != nil || why != "" {
			return job, why, err
		}
		all = all[n:]
	}
	return 0, "", nil
}

// firstNeeded is FirstNeeded for ranges that lie near each other.
func firstNeeded(tx *store.Tx, all []Range, before time.Time, closed func(op.StepID) bool, referred map[op.JobID]string) (op.JobID, string, error) {
	span := Range{all[0].First, all[len(all)-1].Last}
	here := int64(0)
	rows, err := tx.Query(`SELECT id, finished_at FROM jobs WHERE id BETWEEN ? AND ? ORDER BY id`, int64(span.First), int64(span.Last))
	if err != nil {
		return 0, "", err
	}
	defer rows.Close()
	for rows.Next() {
		var id op.JobID
		var finished int64
		if err := rows.Scan(&id, &finished); err != nil {
			return 0, "", err
		}
		if !InRanges(all, id) {
			continue
		}
		here++
		if why := neededJob(id, finished, before, referred); why != "" {
			return id, why, nil
		}
	}
	if err := rows.Err(); err != nil {
		return 0, "", err
	}
	if here != jobsIn(all) {
		return span.First, "a job near it is not there any more", nil
	}
	return firstStep(tx, all, span, closed)
}

// firstStep looks at the steps of the jobs.
func firstStep(tx *store.Tx, all []Range, span Range, closed func(op.StepID) bool) (op.JobID, string, error) {
	rows, err := tx.Query(`SELECT job, idx, state, wish <> '' FROM steps WHERE job BETWEEN ? AND ? ORDER BY job, idx`, int64(span.First), int64(span.Last))
	if err != nil {
		return 0, "", err
	}
	defer rows.Close()
	for rows.Next() {
		var id op.StepID
		var state op.State
		var wish bool
		if err := rows.Scan(&id.Job, &id.Index, &state, &wish); err != nil {
			return 0, "", err
		}
		if !InRanges(all, id.Job) {
			continue
		}
		if why := neededStep(id, state, wish, closed); why != "" {
			return id.Job, why, nil
		}
	}
	return 0, "", rows.Err()
}

func jobsIn(all []Range) (n int64) {
	for _, r := range all {
		n += int64(r.Last - r.First + 1)
	}
	return n
}
