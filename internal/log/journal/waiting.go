package journal

import (
	"time"

	"gated/internal/base/op"
	"gated/internal/base/store"
)

// Waiting counts the requests that wait for a signature.
type Waiting struct {
	Count  int
	Oldest time.Time       // when the oldest of them was made; zero if none waits
	ByRole map[op.Role]int // a request counts for each role that may sign it
}

// ReadWaiting counts what waits. It reads the open requests alone, however many were
// decided.
func ReadWaiting(tx *store.Tx) (Waiting, error) {
	w := Waiting{ByRole: map[op.Role]int{}}
	rows, err := tx.Query(`SELECT r.need, count(*), min(r.created_at) FROM steps s JOIN requests r ON s.job = r.job AND s.idx = r.idx
		WHERE s.state = 'pending_signature' AND s.state IN ('planned', 'pending_signature', 'authorized', 'dispatched') GROUP BY r.need`)
	if err != nil {
		return w, err
	}
	defer rows.Close()
	for rows.Next() {
		var stored string
		var n int
		var oldest int64
		if err := rows.Scan(&stored, &n, &oldest); err != nil {
			return w, err
		}
		need, err := DecodeNeed(stored)
		if err != nil {
			return w, err
		}
		w.Count += n
		if at := fromNano(oldest); w.Oldest.IsZero() || at.Before(w.Oldest) {
			w.Oldest = at
		}
		for _, role := range need.Roles() {
			w.ByRole[role] += n
		}
	}
	return w, rows.Err()
}

// RequestedAt returns when the request of a step was made; the zero time if the step
// has none.
func RequestedAt(tx *store.Tx, id op.StepID) (time.Time, error) {
	var created int64
	err := tx.QueryRow(`SELECT coalesce((SELECT created_at FROM requests WHERE job = ? AND idx = ?), 0)`, int64(id.Job), id.Index).
		Scan(&created)
	return fromNano(created), err
}
