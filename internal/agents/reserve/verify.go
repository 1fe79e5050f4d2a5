package reserve

import (
	"fmt"
	"time"

	"github.com/go-json-experiment/json"

	"gated/internal/base/op"
	"gated/internal/base/store"
)

// maxProblems is how many problems Verify returns at most.
const maxProblems = 100

const (
	sqlEveryPattern = `SELECT p.prefix, p.pattern, p.reservation, coalesce(r.agent, ''), coalesce(r.uid, 0), coalesce(r.member, ''), coalesce(r.registration, 0), coalesce(r.mode, ''),
		coalesce(r.fold, 0), coalesce(r.expires_at, 0), s.path FROM reservation_patterns AS p LEFT JOIN reservations AS r ON r.id = p.reservation
		LEFT JOIN scopes AS s ON s.id = r.scope ORDER BY p.prefix, p.reservation, p.pattern`
	sqlOdd = `SELECT 'r' || r.id || CASE
			WHEN NOT EXISTS (SELECT 1 FROM reservation_patterns AS p WHERE p.reservation = r.id) THEN ' has no patterns'
			WHEN (SELECT count(*) FROM reservation_patterns AS p WHERE p.reservation = r.id) > ?1 THEN ' has too many patterns'
			WHEN (r.agent = '') <> (r.registration = 0) THEN ' has a holder that is neither an agent nor a uid'
			WHEN r.expires_at - r.created_at < ?2 THEN ' lasts shorter than is allowed'
			ELSE ' is due at no moment of its time' END
		FROM reservations AS r WHERE NOT EXISTS (SELECT 1 FROM reservation_patterns AS p WHERE p.reservation = r.id)
		OR (SELECT count(*) FROM reservation_patterns AS p WHERE p.reservation = r.id) > ?1 OR (r.agent = '') <> (r.registration = 0)
		OR r.expires_at - r.created_at < ?2 OR r.due_at < r.created_at LIMIT ?3`
	sqlWeighs = `SELECT r.id, r.weight, coalesce(sum(octet_length(p.pattern) + ?1), 0) AS really FROM reservations AS r
		LEFT JOIN reservation_patterns AS p ON p.reservation = r.id GROUP BY r.id HAVING r.weight <> really LIMIT ?2`
	sqlOver = `SELECT uid, member, agent, count(*) AS n, sum(weight) AS w FROM reservations WHERE expires_at > ?1 GROUP BY uid, member, agent HAVING n > ?2 OR w > ?3
		UNION ALL SELECT uid, member, NULL, count(*) AS n, sum(weight) AS w FROM reservations WHERE expires_at > ?1 GROUP BY uid, member HAVING n > ?4 OR w > ?5 LIMIT ?6`
	sqlFull = `SELECT agent, uid, member, scope, count(*) FROM reservations WHERE expires_at > ? GROUP BY agent, uid, member, scope HAVING count(*) > ? LIMIT ?`
)

// Verify reads the tables and returns at most 100 problems. A problem is two reservations of different holders that
// overlap at a moment and are not both shared. It is also a pattern without a reservation or at a wrong place of the
// index, or anything beyond the limits.
func Verify(tx *store.Tx, now time.Time) ([]string, error) {
	v := &verifier{tx: tx, now: now, cache: newCache()}
	for _, part := range []func() error{v.reservations, v.weights, v.holders, v.uses, v.everyPattern} {
		if err := part(); err != nil {
			return v.problems, err
		}
	}
	return v.problems, nil
}

type verifier struct {
	tx       *store.Tx
	now      time.Time
	cache    *cache
	problems []string
}

func (v *verifier) found(format string, args ...any) {
	if len(v.problems) < maxProblems {
		v.problems = append(v.problems, fmt.Sprintf(format, args...))
	}
}

func (v *verifier) each(query string, fn func(scan func(...any) error) error, args ...any) error {
	rows, err := v.tx.Query(query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() && len(v.problems) < maxProblems {
		if err := fn(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

func (v *verifier) reservations() error {
	return v.each(sqlOdd, func(scan func(...any) error) error {
		var problem string
		err := scan(&problem)
		v.found("%s", problem)
		return err
	}, MaxPatterns, int64(MinTTL), maxProblems)
}

// weights compares each reservation's stored weight with its patterns.
func (v *verifier) weights() error {
	return v.each(sqlWeighs, func(scan func(...any) error) error {
		var id op.ReservationID
		var has, really int64
		err := scan(&id, &has, &really)
		v.found("%v weighs %d bytes in the limits, and its patterns weigh %d", id, has, really)
		return err
	}, weightOfPattern, maxProblems)
}

// uses finds holders and uids that have more on the host than they may.
func (v *verifier) uses() error {
	return v.each(sqlOver, func(scan func(...any) error) error {
		var h Holder
		var name *string
		var n, weight int64
		err := scan(&h.UID, &h.Member, &name, &n, &weight)
		who := fmt.Sprintf("uid %v, under all its names,", h.Account())
		if name != nil {
			h.Name = *name
			who = fmt.Sprintf("%s (uid %v)", h, h.Account())
		}
		v.found("%s has %d reservations whose patterns weigh %d bytes, more than it may", who, n, weight)
		return err
	}, v.now.UnixNano(), MaxReservations, MaxWeight, MaxPerUID, MaxWeightPerUID, maxProblems)
}

func (v *verifier) holders() error {
	return v.each(sqlFull, func(scan func(...any) error) error {
		var h Holder
		var scope, n int64
		err := scan(&h.Name, &h.UID, &h.Member, &scope, &n)
		v.found("%s (uid %v) has %d reservations in %s, more than %d", h, h.Account(), n, scopeID(scope), MaxPerHolder)
		return err
	}, v.now.UnixNano(), MaxPerHolder, maxProblems)
}

// everyPattern compares each pattern with those whose prefix is its own or above it. If two overlap, one of them is
// among those of the other.
func (v *verifier) everyPattern() error {
	return v.each(sqlEveryPattern, func(scan func(...any) error) error {
		var c candidate
		var registration, expires int64
		var path *string
		if err := scan(&c.prefix, &c.pattern, &c.id, &c.agent, &c.uid, &c.member, &registration, &c.mode, &c.fold, &expires, &path); err != nil {
			return err
		}
		if path == nil {
			v.found("the pattern %q belongs to %v, which is not there", c.pattern, c.id)
			return nil
		}
		left := int64(maxWork)
		p, err := v.cache.read(reading{c.pattern, c.fold}, &left)
		switch {
		case err != nil || p.String() != c.pattern:
			v.found("the pattern %q of %v is none: %v", c.pattern, c.id, err)
			return nil
		case prefixOf(*path, p) != c.prefix:
			v.found("the pattern %q of %v is kept at %q, not %q", c.pattern, c.id, c.prefix, prefixOf(*path, p))
		}
		if expires <= v.now.UnixNano() {
			return nil
		}
		return v.pairs(pattern{Pattern: p, asked: c.pattern, prefix: prefixOf(*path, p)}, *path, c)
	})
}

// pairs finds reservations that a pattern overlaps and must not.
func (v *verifier) pairs(p pattern, path string, c candidate) error {
	paths, err := json.Marshal(ancestors(p.prefix))
	if err != nil {
		return err
	}
	var left int64
	w := wish{holder: c.holder(), mode: c.mode, region: region{path: path, fold: c.fold}}
	s := search{tx: v.tx, cache: v.cache, now: v.now, left: &left, region: w.region}
	return each(v.tx, func(o candidate) (bool, error) {
		left = maxWork
		if !w.excludes(o) {
			return true, nil
		}
		overlap, err := s.overlap(p, o)
		if err == nil && overlap && (o.prefix != c.prefix || c.id < o.id) {
			v.found("%v and %v of different holders overlap: %q and %q", min(c.id, o.id), max(c.id, o.id), c.pattern, o.pattern)
		}
		return len(v.problems) < maxProblems, err
	}, sqlAt, string(paths), v.now.UnixNano())
}
