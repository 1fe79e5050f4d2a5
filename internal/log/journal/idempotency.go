package journal

import (
	"database/sql"
	"errors"
	"time"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
)

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
