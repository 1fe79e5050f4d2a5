package reserve

import (
	"time"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
)

// use is what a holder or uid has in force on the host: reservations, and the weight of their patterns.
type use struct{ reservations, weight int }

const sqlUse = `SELECT coalesce(sum(agent = ?1), 0), coalesce(sum(iif(agent = ?1, weight, 0)), 0), count(*), coalesce(sum(weight), 0)
	FROM reservations WHERE uid = ?2 AND member = ?5 AND expires_at > ?3 AND id <> ?4`

// weight is what a pattern counts for in the limits, in bytes: its text, and a fixed part, because each search near it
// compares even the shortest one.
func weight(text string) int { return len(text) + weightOfPattern }

// weightOf is the weight of all patterns of a reservation.
func weightOf(texts []string) (n int) {
	for _, text := range texts {
		n += weight(text)
	}
	return n
}

func (r region) weight() int { return weightOf(r.texts()) }

// light refuses patterns that weigh more than a holder may ever have.
func (w *wish) light() error {
	if n := w.weight(); n > MaxWeight {
		return refusal.New(refusal.OverLimit,
			"the patterns weigh %d bytes (their text, and %d for each), and one holder's may weigh %d", n, weightOfPattern, MaxWeight).
			WithHint("use wildcards, as in dir/**, or shorter patterns")
	}
	return nil
}

// room refuses a claim beyond what its holder or uid may have on the host. The reservation but does not count; 0 is
// none.
func room(tx *store.Tx, h Holder, weight int, but op.ReservationID, now time.Time) error {
	var own, all use
	err := tx.QueryRow(sqlUse, h.Name, int64(h.UID), now.UnixNano(), int64(but), h.Member).Scan(&own.reservations, &own.weight, &all.reservations, &all.weight)
	switch {
	case err != nil:
		return err
	case own.reservations >= MaxReservations:
		return refusal.New(refusal.OverLimit, "%s has %d reservations on this host already, and may have %d", h,
			own.reservations, MaxReservations).
			WithHint("release some, or reserve several patterns at once")
	case own.weight+weight > MaxWeight:
		return refusal.New(refusal.OverLimit,
			"%s would have patterns that weigh %d bytes (their text, and %d for each), and may have %d", h, own.weight+weight,
			weightOfPattern, MaxWeight).WithHint("release some, or use wildcards, as in dir/**")
	case all.reservations >= MaxPerUID:
		return refusal.New(refusal.OverLimit,
			"uid %v has %d reservations on this host already, under all its names, and may have %d", h.Account(), all.reservations, MaxPerUID).
			WithHint("gated reservation list --all shows whose they are; let some of them be released")
	case all.weight+weight > MaxWeightPerUID:
		return refusal.New(refusal.OverLimit,
			"uid %v would have patterns that weigh %d bytes, under all its names, and may have %d", h.Account(), all.weight+weight, MaxWeightPerUID).
			WithHint("gated reservation list --all shows whose they are; let some of them be released")
	}
	return nil
}
