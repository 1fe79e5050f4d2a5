package reserve

import (
	"context"
	"database/sql"
	"errors"
	"strconv"
	"strings"
	"time"

	"gated/internal/base/refusal"
	"gated/internal/base/store"
)

const (
	sqlScopeAt   = `SELECT id, path, device, inode, fold, at FROM scopes WHERE path = ? AND device = ? AND inode = ?`
	sqlScopeByID = `SELECT id, path, device, inode, fold, at FROM scopes WHERE id = ?`
	sqlAllScopes = `SELECT id, path, device, inode, fold, at FROM scopes WHERE id > ? ORDER BY id`
	sqlNewScope  = `INSERT INTO scopes(path, device, inode, fold, at) VALUES(?, ?, ?, ?, ?)`

	// The oldest scope without reservations for which operators signed no step.
	sqlDropScope = `DELETE FROM scopes WHERE id = (SELECT s.id FROM scopes AS s WHERE s.last_step = ''
		AND NOT EXISTS (SELECT 1 FROM reservations AS r WHERE r.scope = s.id) ORDER BY s.id LIMIT 1)`
)

// Register finds the scope of a place, or makes it. Errors are BadParams and
// Malformed for a path that cannot be a scope's, and OverLimit.
func (b *Book) Register(ctx context.Context, p Place) (Scope, error) {
	if err := checkPath(p.Path); err != nil {
		return Scope{}, err
	}
	var s Scope
	found := false
	err := b.snapshot(ctx, func(tx *store.Tx) (err error) {
		s, found, err = findScope(tx, p)
		return err
	})
	if err != nil || found {
		return s, err
	}
	err = b.update(ctx, func(tx *store.Tx, out *outcome) (err error) {
		s, err = placeScope(tx, p, out.now)
		return err
	})
	return s, err
}

// Scopes returns every scope, by id.
func (b *Book) Scopes(ctx context.Context) ([]Scope, error) {
	all, _, err := b.ScopePage(ctx, "", 0)
	return all, err
}

// ScopePage returns the scopes after an id ("" for the first) and whether there are more. It stops at the scope with
// which their paths have so many bytes; 0 is no bound.
func (b *Book) ScopePage(ctx context.Context, after string, bytes int) (all []Scope, more bool, err error) {
	var from int64
	if digits, ok := strings.CutPrefix(after, "s"); after != "" {
		if from, err = strconv.ParseInt(digits, 10, 64); !ok || err != nil || scopeID(from) != after {
			return nil, false, refusal.New(refusal.Malformed, "%.80q is not the id of a scope, like s3", after)
		}
	}
	weight := 0
	err = b.snapshot(ctx, func(tx *store.Tx) error {
		rows, err := tx.Query(sqlAllScopes, from)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			s, err := scanScope(rows.Scan)
			if err != nil {
				return err
			}
			if bytes > 0 && weight >= bytes {
				more = true
				break
			}
			weight += 128 + len(s.Path)
			all = append(all, s)
		}
		return rows.Err()
	})
	return all, more, err
}

// Scope returns the scope of an id such as s3; UnknownTarget if there is none.
func (b *Book) Scope(ctx context.Context, id string) (s Scope, err error) {
	err = b.snapshot(ctx, func(tx *store.Tx) (err error) {
		s, err = readScope(tx, id)
		return err
	})
	return s, err
}

func readScope(tx *store.Tx, id string) (Scope, error) {
	unknown := refusal.New(refusal.UnknownTarget, "there is no scope %.80q", id).
		WithHint("gated reservation list --all --json has the ids of scopes")
	digits, ok := strings.CutPrefix(id, "s")
	n, err := strconv.ParseInt(digits, 10, 64)
	if !ok || err != nil || scopeID(n) != id {
		return Scope{}, unknown
	}
	s, err := scanScope(tx.QueryRow(sqlScopeByID, n).Scan)
	if errors.Is(err, sql.ErrNoRows) {
		return Scope{}, unknown
	}
	return s, err
}

func findScope(tx *store.Tx, p Place) (s Scope, found bool, err error) {
	s, err = scanScope(tx.QueryRow(sqlScopeAt, p.Key(), int64(p.Device), int64(p.Inode)).Scan)
	if errors.Is(err, sql.ErrNoRows) {
		return Scope{}, false, nil
	}
	return s, err == nil, err
}

// placeScope finds the scope of a place or makes it. If there are too many, it removes the oldest unused one. Ids are
// not used again.
func placeScope(tx *store.Tx, p Place, now time.Time) (Scope, error) {
	s, found, err := findScope(tx, p)
	if err != nil || found {
		return s, err
	}
	var n int64
	if err := tx.QueryRow(`SELECT count(*) FROM scopes`).Scan(&n); err != nil {
		return s, err
	}
	if n >= MaxScopes {
		dropped, err := tx.Exec(sqlDropScope)
		if err != nil {
			return s, err
		}
		if dropped == 0 {
			return s, refusal.New(refusal.OverLimit, "there are reservations in %d scopes already", n).WithHint("release some")
		}
	}
	id, err := tx.Insert(sqlNewScope, p.Key(), int64(p.Device), int64(p.Inode), p.Fold, now.UnixNano())
	return Scope{ID: scopeID(id), Place: p, At: fromNano(now.UnixNano())}, err
}

func scanScope(scan func(...any) error) (Scope, error) {
	var s Scope
	var id, device, inode, at int64
	var key string
	err := scan(&id, &key, &device, &inode, &s.Fold, &at)
	s.In, s.Path = PlaceOf(key).In, PlaceOf(key).Path
	s.ID, s.Device, s.Inode, s.At = scopeID(id), uint64(device), uint64(inode), fromNano(at)
	return s, err
}

func scopeID(n int64) string { return "s" + strconv.FormatInt(n, 10) }

// number is the row's id.
func (s Scope) number() int64 {
	n, _ := strconv.ParseInt(strings.TrimPrefix(s.ID, "s"), 10, 64)
	return n
}

func fromNano(n int64) time.Time { return time.Unix(0, n).UTC() }
