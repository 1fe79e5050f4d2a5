package journal

import (
	"database/sql"
	"errors"
	"time"

	"gated/internal/op"
	"gated/internal/store"
)

// Remember stores which job answered a caller's idempotency key.
func Remember(tx *store.Tx, caller, key, body string, job op.JobID, now time.Time) error {
	_, err := tx.Exec(`INSERT INTO idempotency(caller, key, body, job, at) VALUES(?, ?, ?, ?, ?)`,
		caller, key, body, int64(job), now.UnixNano())
	return err
}

// Recall returns the job that answered a caller's key before, 0 if none did.
// The same key with another body is a Conflict.
func Recall(tx *store.Tx, caller, key, body string) (op.JobID, error) {
	var known string
	var job int64
	err := tx.QueryRow(`SELECT body, job FROM idempotency WHERE caller = ? AND key = ?`, caller, key).Scan(&known, &job)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	if known != body {
		return 0, op.Refuse(op.Conflict, "the idempotency key was used for another submission (job %s)", op.JobID(job)).
			WithHint("use a new key for a new submission")
	}
	return op.JobID(job), nil
}

// ForgetKeys drops up to limit idempotency keys older than t.
func ForgetKeys(tx *store.Tx, t time.Time, limit int) error {
	_, err := tx.Exec(`DELETE FROM idempotency WHERE (caller, key) IN
		(SELECT caller, key FROM idempotency WHERE at < ? ORDER BY at LIMIT ?)`, t.UnixNano(), limit)
	return err
}
