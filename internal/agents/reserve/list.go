package reserve

import (
	"context"
	"database/sql"
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
	In     string // as in Place, with Path
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
	sqlShownHolder = `CASE r.agent WHEN '' THEN 'uid:' || r.uid || iif(r.member = '', '', '@' || r.member) ELSE r.agent END`
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
		dir := Place{In: q.In, Path: path.Clean(q.Path)}.Key()
		after, before := below(dir)
		all, err = listUpTo(tx, q.Bytes, sqlListBelow, append(args, dir, after, before)...)
		return err
	})
	return b.living(all), err
}

const sqlFirstOf = `SELECT id FROM reservations WHERE agent = ? AND uid = ? AND member = ? AND expires_at > ? ORDER BY id LIMIT 1`

// Holds returns, in the caller's transaction, the first reservation that a holder has in force, in any scope, kept or
// not. It returns 0 if there is none.
func (b *Book) Holds(tx *store.Tx, h Holder) (id op.ReservationID, err error) {
	err = tx.QueryRow(sqlFirstOf, h.Name, int64(h.UID), h.Member, b.cfg.Now().UnixNano()).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	return id, err
}

// Count returns how many reservations are in force.
func (b *Book) Count(ctx context.Context) (n int, err error) {
	err = b.view(ctx, func(tx *store.Tx, now time.Time) error {
		return tx.QueryRow(`SELECT count(*) FROM reservations WHERE expires_at > ?`, now.UnixNano()).Scan(&n)
	})
	return n, err
}
