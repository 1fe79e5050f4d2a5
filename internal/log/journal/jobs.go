package journal

import (
	"database/sql"
	"errors"
	"fmt"
	"math"
	"time"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
)

// NewJob inserts a job with its first requester and returns its id. Steps are
// added with AddStep.
func NewJob(tx *store.Tx, by op.Requester, reason string, now time.Time) (op.JobID, error) {
	id, err := tx.Insert(`INSERT INTO jobs(reason, created_at) VALUES(?, ?)`, reason, now.UnixNano())
	if err != nil {
		return 0, fmt.Errorf("insert job: %w", err)
	}
	_, err = AddRequester(tx, op.JobID(id), by, reason)
	return op.JobID(id), err
}

// AddRequester adds a requester with its reason to the job, and reports whether the
// job did not have it. A requester that the job has keeps its first reason.
func AddRequester(tx *store.Tx, job op.JobID, by op.Requester, reason string) (added bool, err error) {
	n, err := tx.Exec(`INSERT INTO requesters(job, who, source, uid, pid, agent, setname, reason) VALUES(?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT(job, who) DO NOTHING`,
		int64(job), by.String(), string(by.Source), int64(by.UID), int64(by.PID), by.Agent, by.Set, reason)
	return n == 1, err
}

// DropRequester removes one of several requesters of a job, and returns how many others it has. The last one stays, because a job that
// nobody wants any more still says who asked.
func DropRequester(tx *store.Tx, job op.JobID, who string) (others int, err error) {
	if err = tx.QueryRow(`SELECT count(*) FROM requesters WHERE job = ? AND who <> ?`, int64(job), who).Scan(&others); err != nil || others == 0 {
		return 0, err
	}
	_, err = tx.Exec(`DELETE FROM requesters WHERE job = ? AND who = ?`, int64(job), who)
	return others, err
}

// Requesters returns the requesters of the job.
func Requesters(tx *store.Tx, job op.JobID) ([]op.Requester, error) {
	who, _, err := Reasons(tx, job)
	return who, err
}

// Reasons returns the requesters of the job, and why each of them asks.
func Reasons(tx *store.Tx, job op.JobID) (who []op.Requester, why []op.Reason, err error) {
	rows, err := tx.Query(`SELECT source, uid, pid, agent, setname, reason FROM requesters WHERE job = ? ORDER BY who`, int64(job))
	if err != nil {
		return nil, nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var r op.Requester
		var reason string
		if err := rows.Scan(&r.Source, &r.UID, &r.PID, &r.Agent, &r.Set, &reason); err != nil {
			return nil, nil, err
		}
		who, why = append(who, r), append(why, op.Reason{By: r.String(), Text: reason})
	}
	return who, why, rows.Err()
}

// ReadJob returns a job with its steps; UnknownTarget if there is none.
func ReadJob(tx *store.Tx, id op.JobID) (op.Job, error) {
	j := op.Job{ID: id}
	var created, finished int64
	err := tx.QueryRow(`SELECT reason, created_at, finished_at FROM jobs WHERE id = ?`, int64(id)).
		Scan(&j.Reason, &created, &finished)
	if errors.Is(err, sql.ErrNoRows) {
		return j, refusal.New(refusal.UnknownTarget, "there is no job %s", id).WithHint("gated jobs lists them")
	}
	if err != nil {
		return j, err
	}
	j.CreatedAt, j.FinishedAt = fromNano(created), fromNano(finished)
	if j.Requesters, j.Reasons, err = Reasons(tx, id); err != nil {
		return j, err
	}
	j.Steps, err = StepsOf(tx, id)
	return j, err
}

// NewestJob returns the id of the newest job and when it was made; zero if there is none.
func NewestJob(tx *store.Tx) (id op.JobID, made time.Time, err error) {
	var created int64
	err = tx.QueryRow(`SELECT id, created_at FROM jobs ORDER BY id DESC LIMIT 1`).Scan(&id, &created)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, time.Time{}, nil
	}
	return id, fromNano(created), err
}

// Filter chooses jobs.
type Filter struct {
	State   op.State // empty: any
	After   op.JobID // only newer jobs
	Through op.JobID // none newer than this; 0: no bound
	Limit   int      // 0: no bound
	Bytes   int      // none after the jobs reach this weight; 0: no bound
}

// ReadJobs returns jobs, oldest first. For a closed state it examines every job from
// After to Through, because no index has them.
func ReadJobs(tx *store.Tx, f Filter) ([]op.Job, error) {
	through, limit := int64(f.Through), f.Limit
	if through == 0 {
		through = math.MaxInt64
	}
	if limit <= 0 {
		limit = -1 // SQLite's number for no limit
	}
	ids, err := jobIDs(tx, f, through, limit)
	if err != nil {
		return nil, err
	}
	var out []op.Job
	weight := 0
	for _, id := range ids {
		j, err := ReadJob(tx, id)
		if err != nil {
			return nil, err
		}
		if f.State != "" && j.State() != f.State {
			continue
		}
		weight += j.Weight()
		if out = append(out, j); len(out) == limit || f.Bytes > 0 && weight >= f.Bytes {
			break
		}
	}
	return out, nil
}

// jobIDs returns the jobs that may fit. For a closed state these are the jobs with
// any step in it. Such a job's own state may still be another.
func jobIDs(tx *store.Tx, f Filter, through int64, limit int) ([]op.JobID, error) {
	switch {
	case f.State == "":
		return readIDs(tx, `SELECT id FROM jobs WHERE id > ? AND id <= ? ORDER BY id LIMIT ?`, int64(f.After), through, limit)
	case f.State.Open():
		// A job's state is the state of its first open step.
		return readIDs(tx, `SELECT job FROM steps s WHERE job > ? AND job <= ? AND state = ?
			AND state IN ('planned', 'pending_signature', 'authorized', 'dispatched')
			AND NOT EXISTS (SELECT 1 FROM steps e WHERE e.job = s.job AND e.idx < s.idx
				AND e.state IN ('planned', 'pending_signature', 'authorized', 'dispatched'))
			ORDER BY job LIMIT ?`, int64(f.After), through, string(f.State), limit)
	default:
		return readIDs(tx, `SELECT id FROM jobs WHERE id > ? AND id <= ?
			AND EXISTS (SELECT 1 FROM steps WHERE job = jobs.id AND state = ?) ORDER BY id`,
			int64(f.After), through, string(f.State))
	}
}

func readIDs(tx *store.Tx, query string, args ...any) ([]op.JobID, error) {
	rows, err := tx.Query(query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var ids []op.JobID
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		ids = append(ids, op.JobID(id))
	}
	return ids, rows.Err()
}

// Finish sets the job's end if none of its steps is open, and reports whether
// it did.
func Finish(tx *store.Tx, id op.JobID, now time.Time) (bool, error) {
	n, err := tx.Exec(`UPDATE jobs SET finished_at = ? WHERE id = ? AND finished_at = 0 AND NOT EXISTS
		(SELECT 1 FROM steps WHERE job = ? AND state IN ('planned', 'pending_signature', 'authorized', 'dispatched'))`,
		now.UnixNano(), int64(id), int64(id))
	return n == 1, err
}

// Count returns how many steps are in each open state.
func Count(tx *store.Tx) (map[op.State]int, error) {
	rows, err := tx.Query(`SELECT state, count(*) FROM steps
		WHERE state IN ('planned', 'pending_signature', 'authorized', 'dispatched') GROUP BY state`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	out := map[op.State]int{}
	for rows.Next() {
		var s op.State
		var n int
		if err := rows.Scan(&s, &n); err != nil {
			return nil, err
		}
		out[s] = n
	}
	return out, rows.Err()
}

func fromNano(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.Unix(0, n).UTC()
}

func toNano(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

// Remember stores which job answered a caller's idempotency key.
func Remember(tx *store.Tx, caller, key, body string, job op.JobID, now time.Time) error {
	_, err := tx.Exec(`INSERT INTO idempotency(caller, key, body, job, at) VALUES(?, ?, ?, ?, ?)`,
		caller, key, body, int64(job), now.UnixNano())
	return err
}

// RememberRefusal stores the refusal that answered a caller's idempotency key. A key
// that has an answer keeps it.
func RememberRefusal(tx *store.Tx, caller, key, body string, r *refusal.Refusal, now time.Time) error {
	_, err := tx.Exec(`INSERT INTO idempotency(caller, key, body, job, code, detail, hint, at) VALUES(?, ?, ?, 0, ?, ?, ?, ?)
		ON CONFLICT(caller, key) DO NOTHING`, caller, key, body, string(r.Code), r.Detail, r.Hint, now.UnixNano())
	return err
}

// Recall returns the job, or the refusal, that answered a caller's key before; 0 if
// neither did. The same key with another body is a Conflict.
func Recall(tx *store.Tx, caller, key, body string) (op.JobID, error) {
	var known string
	var job int64
	var first refusal.Refusal
	err := tx.QueryRow(`SELECT body, job, code, detail, hint FROM idempotency WHERE caller = ? AND key = ?`, caller, key).
		Scan(&known, &job, &first.Code, &first.Detail, &first.Hint)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	if known != body {
		return 0, refusal.New(refusal.Conflict, "the idempotency key was used for another submission").
			WithHint("use a new key for a new submission")
	}
	if first.Code != "" {
		return 0, &first
	}
	return op.JobID(job), nil
}

// ForgetKeys deletes up to limit idempotency keys older than t.
func ForgetKeys(tx *store.Tx, t time.Time, limit int) error {
	_, err := tx.Exec(`DELETE FROM idempotency WHERE (caller, key) IN
		(SELECT caller, key FROM idempotency WHERE at < ? ORDER BY at LIMIT ?)`, t.UnixNano(), limit)
	return err
}

// SchemaOutputs is the table of the steps' output. It is a table of its own, so that
// a query of steps does not read the output. The index finds a create's work by the
// birth token.
const SchemaOutputs = `
CREATE TABLE outputs(
	job  INTEGER NOT NULL,
	idx  INTEGER NOT NULL,
	text TEXT NOT NULL,
	PRIMARY KEY(job, idx),
	FOREIGN KEY(job, idx) REFERENCES steps(job, idx)
) STRICT, WITHOUT ROWID;
CREATE INDEX steps_birth ON steps(birth) WHERE birth <> '';
`

// AddOutput stores the output of a step that has just ended. Each step has at most
// one output, and it never changes.
func AddOutput(tx *store.Tx, id op.StepID, text string) error {
	_, err := tx.Exec(`INSERT INTO outputs(job, idx, text) VALUES(?, ?, ?)`, int64(id.Job), id.Index, text)
	return err
}

// ReadShownJob is ReadJob with the output of the steps.
func ReadShownJob(tx *store.Tx, id op.JobID) (op.Job, error) {
	j, err := ReadJob(tx, id)
	if err != nil {
		return j, err
	}
	printed, err := outputs(tx, id)
	for i := range j.Steps {
		j.Steps[i].Output = printed[j.Steps[i].ID.Index]
	}
	return j, err
}

// outputs returns the output of a job's steps, by their number. A step without
// output has no entry.
func outputs(tx *store.Tx, job op.JobID) (map[int]string, error) {
	rows, err := tx.Query(`SELECT idx, text FROM outputs WHERE job = ?`, int64(job))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	out := map[int]string{}
	for rows.Next() {
		var index int
		var text string
		if err := rows.Scan(&index, &text); err != nil {
			return nil, err
		}
		out[index] = text
	}
	return out, rows.Err()
}
