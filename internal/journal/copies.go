package journal

import (
	"database/sql"
	"errors"
	"time"

	"gated/internal/op"
	"gated/internal/store"
)

// SchemaCopies has the index for the steps that made snapshots and backups of a
// target.
const SchemaCopies = `
CREATE INDEX steps_copies ON steps(kind, name, op, job, idx)
	WHERE op IN ('guest.snapshot', 'guest.backup') AND state = 'succeeded';
`

// CopyMadeBy returns the newest step of that operation that succeeded on a target
// and ran at some moment between the two times. If params is not nil, the step has
// exactly these. If there is no such step, the error is UnknownTarget.
func CopyMadeBy(tx *store.Tx, t op.Target, name string, params op.Params, from, to time.Time) (op.Step, error) {
	query := `SELECT ` + stepColumns + ` FROM steps
		WHERE op IN ('guest.snapshot', 'guest.backup') AND state = 'succeeded' AND kind = ? AND name = ? AND op = ?
			AND updated_at >= ? AND EXISTS (SELECT 1 FROM jobs j WHERE j.id = steps.job AND j.created_at <= ?)`
	args := []any{t.Kind, t.Name, name, from.UnixNano(), to.UnixNano()}
	if params != nil {
		query += ` AND params = ?`
		args = append(args, string(params.Canonical()))
	}
	s, err := scanStep(tx.QueryRow(query+` ORDER BY job DESC, idx DESC LIMIT 1`, args...))
	if errors.Is(err, sql.ErrNoRows) {
		return s, op.Refuse(op.UnknownTarget, "no step made a copy of %s then", t)
	}
	return s, err
}
