package reserve

import (
	"database/sql"
	"errors"

	"gated/internal/base/op"
	"gated/internal/base/store"
)

const sqlFirstOf = `SELECT id FROM reservations WHERE agent = ? AND uid = ? AND expires_at > ? ORDER BY id LIMIT 1`

// Holds returns, in the caller's transaction, the first reservation that a holder has in force, in any scope, kept or
// not. It returns 0 if there is none.
func (b *Book) Holds(tx *store.Tx, h Holder) (id op.ReservationID, err error) {
	err = tx.QueryRow(sqlFirstOf, h.Name, int64(h.UID), b.cfg.Now().UnixNano()).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	return id, err
}
