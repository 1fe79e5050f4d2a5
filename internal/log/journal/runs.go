package journal

import (
	"database/sql"
	"errors"

	"gated/internal/base/op"
	"gated/internal/base/store"
)

// SchemaRuns adds the archived jobs as the fewest ranges, whatever segments have them. A list of jobs passes each of them with
// one look, however many years are in it.
const SchemaRuns = `
CREATE TABLE archived_runs(
	first INTEGER PRIMARY KEY,
	last  INTEGER NOT NULL
) STRICT;
INSERT INTO archived_runs(first, last) ` + runs + `;
`

// runs are the rows that archived_runs has to have.
const runs = `SELECT min(first) AS first, max(last) AS last FROM (
	SELECT first, last, sum(begins) OVER (ORDER BY first) AS run FROM (
		SELECT first, last, first > coalesce(lag(last) OVER (ORDER BY first), 0) + 1 AS begins FROM archived_jobs)) GROUP BY run`

// addRun adds a range of archived jobs. It becomes one with the runs that end right before it and begin right after it.
func addRun(tx *store.Tx, r Range) error {
	before, err := runAt(tx, `first < ? ORDER BY first DESC`, r.First)
	if err != nil {
		return err
	}
	if before.Last != 0 && before.Last == r.First-1 {
		r.First = before.First
	}
	after, err := runAt(tx, `first = ?`, r.Last+1)
	if err != nil {
		return err
	}
	if after.Last != 0 {
		if _, err := tx.Exec(`DELETE FROM archived_runs WHERE first = ?`, int64(after.First)); err != nil {
			return err
		}
		r.Last = after.Last
	}
	_, err = tx.Exec(`INSERT INTO archived_runs(first, last) VALUES(?, ?) ON CONFLICT(first) DO UPDATE SET last = excluded.last`,
		int64(r.First), int64(r.Last))
	return err
}

// runAt returns the first run that fits, the zero value if none does.
func runAt(tx *store.Tx, which string, job op.JobID) (r Range, err error) {
	err = tx.QueryRow(`SELECT first, last FROM archived_runs WHERE `+which+` LIMIT 1`, int64(job)).Scan(&r.First, &r.Last)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return r, err
}

// presentRanges calls fn with the ranges of jobs from after+1 to through that no segment has, in order, until fn has enough.
func presentRanges(tx *store.Tx, after, through op.JobID, fn func(Range) (enough bool, err error)) error {
	if after >= through {
		return nil
	}
	run, err := runAt(tx, `first <= ? ORDER BY first DESC`, after+1)
	if err != nil {
		return err
	}
	for from := max(after, run.Last) + 1; from <= through; from = run.Last + 1 {
		if run, err = runAt(tx, `first > ? ORDER BY first`, from); err != nil {
			return err
		}
		present := Range{from, through}
		if run.Last != 0 {
			present.Last = min(run.First-1, through)
		}
		if enough, err := fn(present); err != nil || enough || present.Last == through {
			return err
		}
		if run.Last < run.First || run.Last >= through {
			return nil // it ends, also on a run that is no run, which fsck finds
		}
	}
	return nil
}

// WrongRuns returns the runs that are missing, or too many.
func WrongRuns(tx *store.Tx) (out []Range, err error) {
	rows, err := tx.Query(`SELECT * FROM (` + runs + ` EXCEPT SELECT first, last FROM archived_runs)
		UNION SELECT * FROM (SELECT first, last FROM archived_runs EXCEPT ` + runs + `) ORDER BY first`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var r Range
		if err := rows.Scan(&r.First, &r.Last); err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, rows.Err()
}
