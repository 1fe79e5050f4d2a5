package lease

import (
	"time"

	"gated/internal/ledger"
)

// Watch is how a standby finds out that a gate has no active daemon: the ledger's position has not moved for as long as
// the lease is.
type Watch struct {
	seen  bool
	last  ledger.Position
	since time.Duration // when the first look that showed it was over
}

// Look takes a position into account that was asked for at one time and known at another, both since boot. It returns for
// how long the ledger has not moved for certain.
func (w *Watch) Look(p ledger.Position, asked, known time.Duration) time.Duration {
	if !w.seen || p != w.last {
		w.seen, w.last, w.since = true, p, known
		return 0
	}
	return max(0, asked-w.since)
}
