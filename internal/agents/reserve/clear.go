package reserve

import (
	"context"
	"fmt"
	"time"

	"gated/internal/base/store"
)

// Clear ends every reservation, without an entry for each, and returns how many there were. Scopes keep their ids. It
// is for a restored database, which does not know what was decided after its backup.
func Clear(tx *store.Tx) (ended int, err error) {
	if _, err := tx.Exec(`DELETE FROM reservation_patterns`); err != nil {
		return 0, fmt.Errorf("end reservations: %w", err)
	}
	n, err := tx.Exec(`DELETE FROM reservations`)
	if err != nil {
		return 0, fmt.Errorf("end reservations: %w", err)
	}
	return int(n), nil
}

// Count returns how many reservations are in force.
func (b *Book) Count(ctx context.Context) (n int, err error) {
	err = b.view(ctx, func(tx *store.Tx, now time.Time) error {
		return tx.QueryRow(`SELECT count(*) FROM reservations WHERE expires_at > ?`, now.UnixNano()).Scan(&n)
	})
	return n, err
}
