package reserve

import (
	"database/sql"
	"errors"
	"slices"
	"strings"
	"time"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
)

const (
	sqlColumns = `SELECT r.id, r.agent, r.uid, r.member, r.registration, r.mode, r.fold, r.reason, r.keep, r.created_at, r.expires_at,
		s.id, s.path, s.device, s.inode, s.at,
		(SELECT group_concat(p.pattern, char(0)) FROM reservation_patterns AS p WHERE p.reservation = r.id) `
	sqlReservation = sqlColumns + `FROM reservations AS r CROSS JOIN scopes AS s ON s.id = r.scope `
	sqlByID        = sqlReservation + `WHERE r.id = ?`
	sqlMine        = sqlReservation + `WHERE r.agent = ? AND r.uid = ? AND r.member = ? AND r.expires_at > ? ORDER BY r.id LIMIT ?`
	sqlOfScope     = sqlReservation + `WHERE r.scope = ? AND r.expires_at > ? ORDER BY r.id`
	sqlBoundTo     = sqlReservation + `WHERE r.agent = ? AND r.uid = ? AND r.member = ? AND r.registration = ? AND r.registration <> 0 AND r.keep = 0 LIMIT ?`
	sqlDue         = sqlReservation + `WHERE r.due_at <= ? ORDER BY r.due_at LIMIT ?`
	sqlOwn         = `SELECT coalesce(max(s.id), 0), coalesce(max(s.at), 0), count(r.id), coalesce(min(CASE WHEN r.digest = ?1 THEN r.id END), 0)
		FROM scopes AS s LEFT JOIN reservations AS r ON r.scope = s.id AND r.agent = ?2 AND r.uid = ?3 AND r.member = ?8 AND r.expires_at > ?4
		WHERE s.path = ?5 AND s.device = ?6 AND s.inode = ?7`
	sqlInsert = `INSERT INTO reservations(scope, agent, uid, member, registration, mode, fold, digest, weight, reason, keep, created_at, expires_at, due_at)
		VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	sqlInsertPattern = `INSERT INTO reservation_patterns(prefix, reservation, pattern) VALUES(?, ?, ?)`
	sqlSetHolder     = `UPDATE reservations SET agent = ?, uid = ?, member = ?, registration = ?, keep = 0 WHERE id = ?`
	sqlSetTerms      = `UPDATE reservations SET registration = ?, mode = ?, reason = ?, keep = ? WHERE id = ?`
	sqlSetTimes      = `UPDATE reservations SET expires_at = ?, due_at = ? WHERE id = ?`
	sqlAnnounced     = `UPDATE reservations SET due_at = expires_at WHERE id = ?`
	sqlDelete        = `DELETE FROM reservations WHERE id = ?`
)

// read returns a reservation, without Alive. One that ended is UnknownTarget.
func read(tx *store.Tx, id op.ReservationID, now time.Time) (Reservation, error) {
	r, err := scan(tx.QueryRow(sqlByID, int64(id)).Scan)
	if errors.Is(err, sql.ErrNoRows) || err == nil && !r.ExpiresAt.After(now) {
		return Reservation{}, refusal.New(refusal.UnknownTarget, "there is no reservation %s in force", id).
			WithHint("it may have ended; gated reservation list shows what is in force")
	}
	return r, err
}

// list returns the reservations of a query with their patterns.
func list(tx *store.Tx, query string, args ...any) ([]Reservation, error) {
	return listUpTo(tx, 0, query, args...)
}

// Weight is about how many bytes a reservation takes in a list.
func (r Reservation) Weight() int {
	n := 256 + len(r.Scope.Path) + len(r.Reason)
	for _, p := range r.Patterns {
		n += len(p) + 16
	}
	return n
}

// listUpTo is list, up to the reservation with which they weigh so many bytes; 0 is no bound.
func listUpTo(tx *store.Tx, bytes int, query string, args ...any) ([]Reservation, error) {
	rows, err := tx.Query(query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []Reservation
	weight := 0
	for rows.Next() {
		r, err := scan(rows.Scan)
		if err != nil {
			return nil, err
		}
		all = append(all, r)
		if weight += r.Weight(); bytes > 0 && weight >= bytes {
			break
		}
	}
	return all, rows.Err()
}

func scan(from func(...any) error) (Reservation, error) {
	var r Reservation
	var scope, device, inode, at, created, expires int64
	var key string
	var patterns sql.NullString
	err := from(&r.ID, &r.Holder.Name, &r.Holder.UID, &r.Holder.Member, &r.Holder.Registration, &r.Mode, &r.Scope.Fold, &r.Reason, &r.Keep, &created, &expires,
		&scope, &key, &device, &inode, &at, &patterns)
	r.Scope.In, r.Scope.Path = PlaceOf(key).In, PlaceOf(key).Path
	r.Scope.ID, r.Scope.Device, r.Scope.Inode, r.Scope.At = scopeID(scope), uint64(device), uint64(inode), fromNano(at)
	r.CreatedAt, r.ExpiresAt = fromNano(created), fromNano(expires)
	if patterns.Valid { // only a damaged database has none
		r.Patterns = strings.Split(patterns.String, "\x00") // no pattern has a NUL
		slices.Sort(r.Patterns)
	}
	return r, err
}

// insert writes a new reservation, and sets its id.
func insert(tx *store.Tx, r *Reservation, in region, ttl time.Duration) error {
	due := dueAt(r.ExpiresAt, ttl)
	id, err := tx.Insert(sqlInsert, r.Scope.number(), r.Holder.Name, int64(r.Holder.UID), r.Holder.Member, r.Holder.Registration, string(r.Mode), in.fold,
		in.digest(), in.weight(), r.Reason, r.Keep, r.CreatedAt.UnixNano(), r.ExpiresAt.UnixNano(), due)
	if err != nil {
		return err
	}
	r.ID = op.ReservationID(id)
	for _, p := range in.patterns {
		if _, err := tx.Exec(sqlInsertPattern, p.prefix, id, p.String()); err != nil {
			return err
		}
	}
	return nil
}

// remove deletes a reservation's row. The rows of its patterns go with it.
func remove(tx *store.Tx, id op.ReservationID) error {
	_, err := tx.Exec(sqlDelete, int64(id))
	return err
}

// dueAt is the time at which the end of a reservation is announced, in nanoseconds.
func dueAt(expires time.Time, ttl time.Duration) int64 {
	return expires.Add(-min(announceBefore, ttl/announceShare)).UnixNano()
}

// Schema is the tables of this package. What has ended has no rows: the audit log is its history. Times are Unix
// nanoseconds. Device and inode are unsigned 64-bit numbers, stored as the signed numbers with the same bits.
//
// A row of reservation_patterns has the path of prefixOf, absolute and with case folded. What may overlap the pattern
// lies above that path, at it or below it (search.go).
const Schema = `
CREATE TABLE scopes(
	id        INTEGER PRIMARY KEY AUTOINCREMENT,
	path      TEXT NOT NULL,
	device    INTEGER NOT NULL,
	inode     INTEGER NOT NULL,
	fold      INTEGER NOT NULL,
	at        INTEGER NOT NULL,
	last_step TEXT NOT NULL DEFAULT '', -- of operators, that was applied here
	UNIQUE(path, device, inode)
) STRICT;
CREATE TABLE reservations(
	id           INTEGER PRIMARY KEY AUTOINCREMENT,
	scope        INTEGER NOT NULL REFERENCES scopes(id),
	agent        TEXT NOT NULL,         -- empty for a bare uid
	uid          INTEGER NOT NULL,
	registration INTEGER NOT NULL,      -- 0 for a bare uid
	mode         TEXT NOT NULL CHECK (mode IN ('exclusive', 'shared')),
	fold         INTEGER NOT NULL,      -- how its patterns are read
	digest       BLOB NOT NULL,         -- of fold and patterns
	weight       INTEGER NOT NULL,      -- of patterns, for the limits
	reason       TEXT NOT NULL,
	keep         INTEGER NOT NULL,
	created_at   INTEGER NOT NULL,
	expires_at   INTEGER NOT NULL,
	due_at       INTEGER NOT NULL,      -- when its end is announced; then expires_at
	CHECK (due_at <= expires_at)
) STRICT;
CREATE INDEX reservations_due ON reservations(due_at);
CREATE INDEX reservations_scope ON reservations(scope);
CREATE INDEX reservations_holder ON reservations(uid, agent, scope, expires_at, weight);
CREATE TABLE reservation_patterns(
	prefix      TEXT NOT NULL,
	reservation INTEGER NOT NULL REFERENCES reservations(id) ON DELETE CASCADE,
	pattern     TEXT NOT NULL,
	PRIMARY KEY(prefix, reservation, pattern)
) STRICT, WITHOUT ROWID;
CREATE INDEX reservation_patterns_of ON reservation_patterns(reservation);
`

// SchemaMembers tells equal uids of several members apart.
const SchemaMembers = `
ALTER TABLE reservations ADD COLUMN member TEXT NOT NULL DEFAULT ''; -- of the holder; empty on a gate without callers of other members
DROP INDEX reservations_holder;
CREATE INDEX reservations_holder ON reservations(uid, member, agent, scope, expires_at, weight);
`
