package reserve

import (
	"context"
	"errors"
	"path"
	"time"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
)

// Query says which reservations to list. An empty member matches all.
type Query struct {
	Scope  string // a scope's id
	Path   string // a scope's path; scopes below it count too
	Holder string // as Holder.String has it
	After  op.ReservationID
	Limit  int // at most MaxList; 0 is DefaultList
	Bytes  int // stop once they weigh so much; 0: no bound
}

// In sqlListBelow the first two bounds are those of an index. The rest leaves out paths between them that are not
// below, such as /srv/a-b for /srv/a.
const (
	sqlList = sqlReservation + `WHERE r.id > ?1 AND r.expires_at > ?2 AND (?3 = 0 OR r.scope = ?3) AND (?4 = '' OR ` + sqlShownHolder + ` = ?4)
		ORDER BY r.id LIMIT ?5`
	sqlListBelow = sqlColumns + `FROM scopes AS s CROSS JOIN reservations AS r ON r.scope = s.id
		WHERE s.path >= ?6 AND s.path < ?8 AND (s.path = ?6 OR s.path > ?7)
		AND r.id > ?1 AND r.expires_at > ?2 AND (?3 = 0 OR r.scope = ?3) AND (?4 = '' OR ` + sqlShownHolder + ` = ?4) ORDER BY r.id LIMIT ?5`
	sqlShownHolder = `CASE r.agent WHEN '' THEN 'uid:' || r.uid ELSE r.agent END`
)

// List returns reservations in force, by id. An unknown id of a scope is UnknownTarget. An unknown path has an empty
// list.
func (b *Book) List(ctx context.Context, q Query) ([]Reservation, error) {
	switch {
	case q.Limit < 0 || q.Limit > MaxList:
		return nil, refusal.New(refusal.BadParams, "a limit of %d is outside 1 to %d", q.Limit, MaxList)
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
		args := []any{int64(q.After), now.UnixNano(), scope, q.Holder, q.Limit}
		if q.Path == "" {
			all, err = listUpTo(tx, q.Bytes, sqlList, args...)
			return err
		}
		dir := path.Clean(q.Path)
		after, before := below(dir)
		all, err = listUpTo(tx, q.Bytes, sqlListBelow, append(args, dir, after, before)...)
		return err
	})
	return b.living(all), err
}

// Check returns the reservations of others that overlap paths, by id. It returns at most MaxConflicts, and whether
// there are more. It grants and registers nothing. Of the place only Path and Fold matter. It ignores claims that wait.
// Its refusals are those of Reserve for the same question.
func (b *Book) Check(ctx context.Context, by op.Requester, p Place, patterns []string, m Mode) (conflicts []Conflict, more bool, err error) {
	w, err := readWish(by, p, patterns, m, MaxCheck)
	if err != nil {
		return nil, false, err
	}
	in, err := b.checked(ctx, w, b.inside)
	if errors.Is(err, refusal.TooComplex) {
		var done func()
		if done, err = b.turn(ctx, by.UID); err == nil {
			defer done()
			in, err = b.checked(ctx, w, maxWork)
		}
	}
	if err != nil {
		return nil, false, b.shown(err)
	}
	b.lives(in.conflicts)
	return in.conflicts, in.more, nil
}

// checked searches on a snapshot and returns what is in the way. It is TooComplex if that takes more than work. If work
// is the most that any search may spend, it returns the conflicts that it found by then.
func (b *Book) checked(ctx context.Context, w *wish, work int64) (in inTheWay, err error) {
	full := work == maxWork
	err = b.view(ctx, func(tx *store.Tx, now time.Time) error {
		s := b.search(tx, now, &work, w, MaxConflicts)
		s.only = w.excludes
		unseen := s.near()
		if unseen != nil && !(full && errors.Is(unseen, refusal.TooComplex) && len(s.hits) > 0) {
			return unseen
		}
		s.more = s.more || unseen != nil
		in, err = w.told(s)
		return err
	})
	return in, err
}
