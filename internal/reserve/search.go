package reserve

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-json-experiment/json"

	"gated/internal/glob"
	"gated/internal/op"
	"gated/internal/store"
)

// search is one look for reservations that a region overlaps, in one transaction.
type search struct {
	tx    *store.Tx
	cache *cache
	now   time.Time
	spent *int64 // of maxWork, by all searches of one decision

	mine Holder           // whose reservations do not count
	only *Holder          // if set, nobody else's do
	mode Mode             // of what is looked for
	skip op.ReservationID // one that does not count
	till op.ReservationID // if set, neither it nor later ones count
	max  int              // stop after so many
}

// hit is a reservation that was found, with the first two patterns that overlap.
type hit struct {
	id              op.ReservationID
	asked, overlaps string
}

// candidate is a pattern in the index.
type candidate struct {
	prefix, pattern string
	id              op.ReservationID
	agent           string
	uid             uint32
	mode            Mode
	fold            bool
	path            string // of its scope
}

const (
	sqlCandidates = `SELECT p.prefix, p.pattern, r.id, r.agent, r.uid, r.mode, r.fold, s.path
		FROM reservation_patterns AS p CROSS JOIN reservations AS r ON r.id = p.reservation CROSS JOIN scopes AS s ON s.id = r.scope `
	sqlAbove = sqlCandidates + `WHERE p.prefix IN (SELECT value FROM json_each(?)) AND r.expires_at > ? LIMIT ?`
	sqlBelow = sqlCandidates + `WHERE p.prefix > ? AND p.prefix < ? AND r.expires_at > ? LIMIT ?`
)

// run returns the reservations that overlap, by id, and whether there are more
// than max. A search that would look at too much is refused, as TooComplex,
// unless it found something.
func (s *search) run(r region) (found []hit, more bool, err error) {
	seen := map[op.ReservationID]bool{}
	var unseen error
	for _, p := range r.patterns {
		err := s.near(p, func(c candidate) (bool, error) {
			if seen[c.id] || !s.counts(c) {
				return true, nil
			}
			overlap, err := s.overlap(r, p, c)
			if err != nil || !overlap {
				return true, err
			}
			if more = len(found) == s.max; more {
				return false, nil
			}
			seen[c.id] = true
			found = append(found, hit{c.id, p.asked, c.pattern})
			return true, nil
		})
		switch {
		case errors.Is(err, op.TooComplex):
			unseen = err
		case err != nil:
			return nil, false, err
		}
		if more {
			break
		}
	}
	if unseen != nil && len(found) == 0 {
		return nil, false, unseen
	}
	slices.SortFunc(found, func(a, b hit) int { return cmp.Compare(a.id, b.id) })
	return found, more || unseen != nil, nil
}

// counts reports whether a candidate would be in the way if it overlaps.
func (s *search) counts(c candidate) bool {
	h := Holder{Name: c.agent, UID: c.uid}
	switch {
	case c.id == s.skip, s.till != 0 && c.id >= s.till, s.only == nil && h.Same(s.mine), s.only != nil && !h.Same(*s.only):
		return false
	}
	return s.mode == Exclusive || c.mode == Exclusive
}

// overlap compares a pattern of a region with a candidate.
func (s *search) overlap(r region, p pattern, c candidate) (bool, error) {
	*s.spent += workOfPair + int64(len(p.String()))*int64(len(c.pattern))
	if !s.cache.has(reading{c.pattern, c.fold}) {
		*s.spent += workOfParse * int64(len(c.pattern))
	}
	if *s.spent > maxWork {
		return false, tooComplex(p.asked)
	}
	q, err := s.cache.parse(c.pattern, glob.Options{FoldCase: c.fold})
	if err != nil {
		return false, fmt.Errorf("pattern of %v: %w", c.id, err)
	}
	return meet(r, p.Pattern, region{path: c.path, fold: c.fold}, q), nil
}

func tooComplex(asked string) error {
	return op.Refuse(op.TooComplex, "too many reservations lie where %.80q could match", asked).
		WithHint("narrow the pattern: begin it with the directory that is meant")
}

// near calls each for every pattern of the index that the prefixes let overlap,
// until it returns false. Too many are TooComplex.
func (s *search) near(p pattern, each func(candidate) (bool, error)) error {
	n := 0
	counted := func(c candidate) (bool, error) {
		if n++; n > MaxCandidates {
			return false, tooComplex(p.asked)
		}
		return each(c)
	}
	if next, err := s.above(p, counted); err != nil || !next || p.isPath() {
		return err
	}
	after, before := below(p.prefix)
	_, err := s.query(counted, sqlBelow, after, before, s.now.UnixNano(), MaxCandidates+1-n)
	return err
}

// above is near for those whose prefix is the pattern's or above it.
func (s *search) above(p pattern, each func(candidate) (bool, error)) (next bool, err error) {
	paths, err := json.Marshal(ancestors(p.prefix))
	if err != nil {
		return false, err
	}
	return s.query(each, sqlAbove, string(paths), s.now.UnixNano(), MaxCandidates+1)
}

func (s *search) query(each func(candidate) (bool, error), query string, args ...any) (next bool, err error) {
	rows, err := s.tx.Query(query, args...)
	if err != nil {
		return false, err
	}
	defer rows.Close()
	for rows.Next() {
		var c candidate
		if err := rows.Scan(&c.prefix, &c.pattern, &c.id, &c.agent, &c.uid, &c.mode, &c.fold, &c.path); err != nil {
			return false, err
		}
		if next, err := each(c); err != nil || !next {
			return false, err
		}
	}
	return true, rows.Err()
}
