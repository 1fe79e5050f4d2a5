package reserve

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
)

// search finds the reservations that a region overlaps, in one transaction.
type search struct {
	tx    *store.Tx
	cache *cache
	now   time.Time
	left  *int64 // of the work that it may do
	region

	only func(candidate) bool // those that matter; nil for all
	max  int                  // of hits
	more bool                 // there are more than max
	hits hits
}

// hits are the reservations that were found, by id.
type hits map[op.ReservationID]*hit

// hit is a reservation that overlaps, with the first two patterns that do.
type hit struct {
	candidate
	asked  string
	covers uint64 // the region's patterns that it covers, a bit for each
}

// candidate is a pattern in the index, with its reservation.
type candidate struct {
	prefix, pattern string
	id              op.ReservationID
	agent           string
	uid             uint32
	member          string
	mode            Mode
	fold            bool
	scope           int64
	path            string // of its scope
}

func (c candidate) holder() Holder { return Holder{Name: c.agent, UID: c.uid, Member: c.member} }

// The candidates at given paths, those below given paths, those of later reservations, and those of a holder. In
// sqlNear a path of the second list has no "/" at its end; "0" is the byte after "/".
const (
	sqlCandidate  = `SELECT p.prefix, p.pattern, r.id, r.agent, r.uid, r.member, r.mode, r.fold, r.scope, s.path FROM `
	sqlOfPatterns = `reservation_patterns AS p CROSS JOIN reservations AS r ON r.id = p.reservation CROSS JOIN scopes AS s ON s.id = r.scope `
	sqlOfRows     = sqlCandidate + `reservations AS r CROSS JOIN reservation_patterns AS p ON p.reservation = r.id CROSS JOIN scopes AS s ON s.id = r.scope `
	sqlAt         = sqlCandidate + sqlOfPatterns + `WHERE p.prefix IN (SELECT value FROM json_each(?1)) AND r.expires_at > ?2`
	sqlNear       = sqlAt + ` UNION ALL ` + sqlCandidate + `json_each(?3) AS d CROSS JOIN ` + sqlOfPatterns +
		`WHERE p.prefix > d.value || '/' AND p.prefix < d.value || '0' AND r.expires_at > ?2`
	sqlNewer    = sqlOfRows + `WHERE r.id > ?1 AND r.expires_at > ?2`
	sqlHoldings = sqlOfRows + `WHERE r.agent = ?1 AND r.uid = ?2 AND r.member = ?4 AND r.expires_at > ?3`
)

// near compares all that can overlap the region by the prefixes: those at or above each pattern's prefix and, for
// patterns of more than one path, those below it.
func (s *search) near() error {
	var at, under []string
	for _, p := range s.patterns {
		at = append(at, ancestors(p.prefix)...)
		if !p.isPath() {
			under = append(under, p.prefix)
		}
	}
	slices.Sort(at)
	at = slices.Compact(at)
	slices.Sort(under)
	var below []string
	for _, dir := range under { // sorted: each comes after those above it
		if !slices.ContainsFunc(below, func(d string) bool { return related(d, dir) }) {
			below = append(below, dir)
		}
	}
	for i, dir := range below {
		below[i] = strings.TrimSuffix(dir, "/")
	}
	paths, err := json.Marshal(at)
	if err != nil {
		return err
	}
	dirs, err := json.Marshal(below)
	if err != nil {
		return err
	}
	return each(s.tx, s.consider, sqlNear, string(paths), s.now.UnixNano(), string(dirs))
}

// newer compares all that was made after a reservation.
func (s *search) newer(after op.ReservationID) error {
	return each(s.tx, s.consider, sqlNewer, int64(after), s.now.UnixNano())
}

// each calls fn for the candidates of a query until it returns false.
func each(tx *store.Tx, fn func(candidate) (bool, error), query string, args ...any) error {
	rows, err := tx.Query(query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var c candidate
		if err := rows.Scan(&c.prefix, &c.pattern, &c.id, &c.agent, &c.uid, &c.member, &c.mode, &c.fold, &c.scope, &c.path); err != nil {
			return err
		}
		if next, err := fn(c); err != nil || !next {
			return err
		}
	}
	return rows.Err()
}

// consider compares a candidate with the region. It returns whether to go on.
func (s *search) consider(c candidate) (bool, error) {
	if *s.left -= workOfRow + int64(len(s.patterns)); *s.left < 0 {
		return false, tooComplex(s.patterns[0].asked)
	}
	if s.only != nil && !s.only(c) {
		return true, nil
	}
	for i, p := range s.patterns {
		if err := s.compare(i, p, c); err != nil || s.more {
			return false, err
		}
	}
	return true, nil
}

// compare compares the i-th pattern of the region with a candidate.
func (s *search) compare(i int, p pattern, c candidate) error {
	h := s.hits[c.id]
	if !related(p.prefix, c.prefix) || h != nil && (h.covers>>i&1 != 0 || c.path != s.path || c.fold != s.fold) {
		return nil
	}
	overlap, err := s.overlap(p, c)
	if err != nil || !overlap {
		return err
	}
	if h == nil {
		if s.more = len(s.hits) == s.max; s.more {
			return nil
		}
		h = &hit{candidate: c, asked: p.asked}
		s.hits[c.id] = h
	}
	// A pattern that is one path is covered by each candidate that overlaps it. Of other patterns only the texts are
	// compared.
	if c.path == s.path && c.fold == s.fold && (p.isPath() || c.pattern == p.String()) {
		h.covers |= 1 << i
	}
	return nil
}

// overlap compares a pattern of the region with a candidate.
func (s *search) overlap(p pattern, c candidate) (bool, error) {
	q, err := s.cache.read(reading{c.pattern, c.fold}, s.left)
	switch {
	case errors.Is(err, refusal.TooComplex):
		return false, tooComplex(p.asked)
	case err != nil:
		return false, fmt.Errorf("pattern of %v: %w", c.id, err)
	}
	overlap, known := meet(s.region, p.Pattern, region{path: c.path, fold: c.fold}, q, s.left)
	if !known {
		return false, tooComplex(p.asked)
	}
	return overlap, nil
}

func tooComplex(asked string) error {
	return refusal.New(refusal.TooComplex, "too many reservations lie where %.80q could match", asked).
		WithHint("narrow the pattern: begin it with the directory that is meant")
}
