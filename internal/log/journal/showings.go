package journal

import (
	"database/sql"
	"errors"
	"time"

	"gated/internal/base/op"
	"gated/internal/base/store"
)

// Showing has the first and the last time when operators were shown the present
// payload of a request. After a pause the first time starts again.
type Showing struct {
	First, Last time.Time
}

// Show records that an operator was shown the payload of a request. If the first
// showing was at least pause ago, this one counts as a first one.
func Show(tx *store.Tx, id op.RequestID, now time.Time, pause time.Duration) error {
	_, err := tx.Exec(`INSERT INTO showings(job, idx, first_at, last_at) VALUES(?, ?, ?, ?)
		ON CONFLICT(job, idx) DO UPDATE SET last_at = max(last_at, excluded.last_at),
			first_at = iif(first_at <= excluded.first_at - ?, excluded.first_at, first_at)`,
		int64(id.Job), id.Index, now.UnixNano(), now.UnixNano(), int64(pause))
	return err
}

// ShownAt returns when the present payload of a request was shown. If it was not
// shown, ok is false.
func ShownAt(tx *store.Tx, id op.RequestID) (s Showing, ok bool, err error) {
	var first, last int64
	err = tx.QueryRow(`SELECT first_at, last_at FROM showings WHERE job = ? AND idx = ?`, int64(id.Job), id.Index).Scan(&first, &last)
	if errors.Is(err, sql.ErrNoRows) {
		return s, false, nil
	}
	return Showing{First: fromNano(first), Last: fromNano(last)}, err == nil, err
}

// ForgetShowing deletes the record, because the payload has changed.
func ForgetShowing(tx *store.Tx, id op.RequestID) error {
	_, err := tx.Exec(`DELETE FROM showings WHERE job = ? AND idx = ?`, int64(id.Job), id.Index)
	return err
}

// ShownRequests returns the requests with a record, oldest first.
func ShownRequests(tx *store.Tx, limit int) ([]op.RequestID, error) {
	return readStepIDs(tx, `SELECT job, idx FROM showings ORDER BY job, idx LIMIT ?`, limit)
}

// LastSigned returns when the newest signature of a request counted, the zero time
// if it has none.
func LastSigned(tx *store.Tx, id op.RequestID) (time.Time, error) {
	var at int64
	err := tx.QueryRow(`SELECT coalesce(max(at), 0) FROM signatures WHERE job = ? AND idx = ?`, int64(id.Job), id.Index).Scan(&at)
	return fromNano(at), err
}
