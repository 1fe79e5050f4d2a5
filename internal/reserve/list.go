package reserve

import (
	"context"
	"time"

	"gated/internal/op"
	"gated/internal/store"
)

// Query says which reservations are wanted; what is empty does not matter.
type Query struct {
	Scope  string // a scope's id
	Path   string // of the scopes
	Holder string // as Holder.String has it
	After  op.ReservationID
	Limit  int // at most MaxList; 0 is DefaultList
}

const sqlList = sqlReservation + `WHERE r.id > ? AND r.expires_at > ? AND (?3 = 0 OR r.scope = ?3) AND (?4 = '' OR s.path = ?4)
	AND (?5 = '' OR CASE r.agent WHEN '' THEN 'uid:' || r.uid ELSE r.agent END = ?5) ORDER BY r.id LIMIT ?`

// List returns reservations in force, by id. A scope that is not known is
// UnknownTarget.
func (b *Book) List(ctx context.Context, q Query) ([]Reservation, error) {
	switch {
	case q.Limit < 0 || q.Limit > MaxList:
		return nil, op.Refuse(op.BadParams, "a limit of %d is outside 1 to %d", q.Limit, MaxList)
	case q.Limit == 0:
		q.Limit = DefaultList
	}
	var all []Reservation
	err := b.view(ctx, func(tx *store.Tx, now time.Time) error {
		var scope int64
		if q.Scope != "" {
			s, err := readScope(tx, q.Scope)
			if err != nil {
				return err
			}
			scope = s.number()
		}
		var err error
		all, err = list(tx, sqlList, int64(q.After), now.UnixNano(), scope, q.Path, q.Holder, q.Limit)
		return err
	})
	for i := range all {
		all[i].Alive = b.alive(all[i].Holder)
	}
	return all, err
}

// Check returns reservations of others that overlap paths, by id, at most
// MaxConflicts of them, and whether there are more. It grants nothing and
// registers nothing; of the place only Path and Fold matter. Claims that wait
// are in nobody's way here. Refusals are those of Reserve for what was asked.
func (b *Book) Check(ctx context.Context, by op.Requester, p Place, patterns []string, m Mode) (conflicts []Conflict, more bool, err error) {
	w, err := b.readWish(by, p, patterns, m, MaxCheck)
	if err != nil {
		return nil, false, err
	}
	var in inTheWay
	err = b.view(ctx, func(tx *store.Tx, now time.Time) (err error) {
		in, err = b.conflicts(tx, &outcome{now: now}, w, 0)
		return err
	})
	b.lives(in.conflicts)
	return in.conflicts, in.more, err
}
