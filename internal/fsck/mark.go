package fsck

import (
	"time"

	"gated/internal/audit"
	"gated/internal/op"
)

// maxAhead is how far an entry that was made by a believed clock may be ahead
// of the time mark: by the hour that the clock may have gone on by itself
// before it was believed again, and by the second to which the mark is kept.
const maxAhead = time.Hour + time.Second

// believe keeps the latest time that a believed clock showed. While the clock
// is in doubt, the log goes on by the time since boot, the mark stands still,
// and nothing is approved, run by signature or young enough to be destroyed
// without one. A new gate id begins with the time of its machine, which may be
// any. That a daemon started says nothing: in doubt, it goes on by the time since
// boot, too.
func (h *history) believe(e audit.Entry) {
	taking := e.Kind == audit.Dispatched && (e.Class == op.Destructive || e.Op == "guest.destroy")
	switch {
	case e.Kind == audit.Restored, e.Kind == audit.TimeAccepted:
		h.trusted = time.Time{}
	case (e.Kind == audit.Approved || taking) && e.Time.After(h.trusted):
		h.trusted = e.Time
	}
}
