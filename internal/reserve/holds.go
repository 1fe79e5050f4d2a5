package reserve

import (
	"database/sql"
	"errors"

	"gated/internal/op"
	"gated/internal/store"
)

const sqlFirstOf = `SELECT id FROM reservations WHERE agent = ? AND uid = ? AND expires_at > ? ORDER BY id LIMIT 1`

// Holds returns, in the caller's transaction, the first reservation that a holder
// has in force, kept or not and in whichever scope; 0 where it has none.
func (b *Book) Holds(tx *store.Tx, h Holder) (id op.ReservationID, err error) {
	err = tx.QueryRow(sqlFirstOf, h.Name, int64(h.UID), b.cfg.Now().UnixNano()).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	return id, err
}
