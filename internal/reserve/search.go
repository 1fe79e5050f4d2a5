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
	left  *int64 // of the work that it may do

	all  bool             // whoever has them, in whichever mode: what follows but max does not matter then
	mine Holder           // whose reservations are not in the way
	mode Mode             // of what is looked for
	skip op.ReservationID // one that does not count
	own  bool             // those of mine that cover the region are looked for too
	max  int              // stop after so many, those that cover aside

	dirs map[string][]candidate // of several paths: what there is at each directory above them
}

// hit is a reservation that was found, with the first two patterns that overlap.
type hit struct {
	candidate
	asked  string
	covers uint64 // which of the region's patterns it covers, a bit for each
}

// candidate is a pattern in the index, with the reservation that it is of.
type candidate struct {
	prefix, pattern string
	id              op.ReservationID
	agent           string
	uid             uint32
	mode            Mode
	fold            bool
	scope           int64
	path            string // of its scope
}

func (c candidate) holder() Holder { return Holder{Name: c.agent, UID: c.uid} }

const (
	sqlCandidates = `SELECT p.prefix, p.pattern, r.id, r.agent, r.uid, r.mode, r.fold, r.scope, s.path
		FROM reservation_patterns AS p CROSS JOIN reservations AS r ON r.id = p.reservation CROSS JOIN scopes AS s ON s.id = r.scope `
	sqlAbove = sqlCandidates + `WHERE p.prefix IN (SELECT value FROM json_each(?1)) AND r.expires_at > ?2`
	sqlNear  = sqlAbove + ` UNION ALL ` + sqlCandidates + `WHERE p.prefix > ?3 AND p.prefix < ?4 AND r.expires_at > ?2`
	sqlNewer = `SELECT p.prefix, p.pattern, r.id, r.agent, r.uid, r.mode, r.fold, r.scope, s.path FROM reservations AS r
		CROSS JOIN reservation_patterns AS p ON p.reservation = r.id CROSS JOIN scopes AS s ON s.id = r.scope WHERE r.id > ?1 AND r.expires_at > ?2`
)

// sights is what a search has seen.
type sights struct {
	hits   map[op.ReservationID]*hit
	n      int   // of them, those that cover aside
	more   bool  // than max
	unseen error // TooComplex: it has not looked at everything
}

// run looks at all that is near a region.
func (s *search) run(r region) (*sights, error) {
	out := &sights{hits: map[op.ReservationID]*hit{}}
	if len(r.patterns) > 1 {
		s.dirs = map[string][]candidate{}
	}
	for i, p := range r.patterns {
		err := s.near(p, func(c candidate) (bool, error) { return s.consider(out, r, i, c) })
		switch {
		case errors.Is(err, op.TooComplex):
			out.unseen = err
		case err != nil:
			return nil, err
		}
		if out.more {
			break
		}
	}
	return out, nil
}

// newer looks at all that was made after a reservation.
func (s *search) newer(out *sights, r region, after op.ReservationID) error {
	_, err := s.query(func(c candidate) (bool, error) {
		if err := s.row(r.patterns[0]); err != nil {
			return false, err
		}
		for i, p := range r.patterns {
			if !related(p.prefix, c.prefix) {
				continue
			}
			if next, err := s.consider(out, r, i, c); err != nil || !next {
				return false, err
			}
		}
		return true, nil
	}, sqlNewer, int64(after), s.now.UnixNano())
	if errors.Is(err, op.TooComplex) {
		out.unseen, err = err, nil
	}
	return err
}

// consider compares the i-th pattern of a region with a candidate, and returns
// whether to go on.
func (s *search) consider(out *sights, r region, i int, c candidate) (bool, error) {
	h, p := out.hits[c.id], r.patterns[i]
	counts := h == nil && (s.all || s.inTheWay(c))
	covers := (s.all || s.own && s.mayCover(c)) && c.path == r.path && c.fold == r.fold && (h == nil || h.covers>>i&1 == 0)
	if !counts && !covers {
		return true, nil
	}
	overlap, err := s.overlap(r, p, c)
	if err != nil || !overlap {
		return true, err
	}
	if h == nil {
		if counts {
			if out.more = out.n == s.max; out.more {
				return false, nil
			}
			out.n++
		}
		h = &hit{candidate: c, asked: p.asked}
		out.hits[c.id] = h
	}
	// A path that a pattern matches is covered by it; else nobody compares more
	// than the texts.
	if covers && (p.isPath() || c.pattern == p.String()) {
		h.covers |= 1 << i
	}
	return true, nil
}

// inTheWay reports whether a candidate is if it overlaps.
func (s *search) inTheWay(c candidate) bool {
	return c.id != s.skip && !c.holder().Same(s.mine) && (s.mode == Exclusive || c.mode == Exclusive)
}

// mayCover reports whether a candidate is the holder's own and its mode no weaker.
func (s *search) mayCover(c candidate) bool {
	return c.id != s.skip && c.holder().Same(s.mine) && (c.mode == Exclusive || s.mode == Shared)
}

// conflicts are those that are in the way, by id, at most MaxConflicts.
func (s *search) conflicts(in *sights) (found []hit, more bool) {
	for _, h := range in.hits {
		if s.inTheWay(h.candidate) {
			found = append(found, *h)
		}
	}
	slices.SortFunc(found, func(a, b hit) int { return cmp.Compare(a.id, b.id) })
	if len(found) > MaxConflicts {
		return found[:MaxConflicts], true
	}
	return found, in.more || in.unseen != nil
}

// cover is the first of the holder's own that covers all of a region in a scope,
// or 0.
func (s *search) cover(in *sights, r region, scope Scope) (first op.ReservationID) {
	for _, h := range in.hits {
		whole := s.mayCover(h.candidate) && h.scope == scope.number() && h.covers == 1<<len(r.patterns)-1
		if whole && (first == 0 || h.id < first) {
			first = h.id
		}
	}
	return first
}

// overlap compares a pattern of a region with a candidate.
func (s *search) overlap(r region, p pattern, c candidate) (bool, error) {
	*s.left -= workOfPair + int64(len(p.String()))*int64(len(c.pattern))
	if !s.cache.has(reading{c.pattern, c.fold}) {
		*s.left -= workOfParse * int64(len(c.pattern))
	}
	if *s.left < 0 {
		return false, tooComplex(p.asked)
	}
	q, err := s.cache.parse(c.pattern, glob.Options{FoldCase: c.fold})
	if err != nil {
		return false, fmt.Errorf("pattern of %v: %w", c.id, err)
	}
	return meet(r, p.Pattern, region{path: c.path, fold: c.fold}, q), nil
}

// row is a row that is read.
func (s *search) row(p pattern) error {
	if *s.left -= workOfRow; *s.left < 0 {
		return tooComplex(p.asked)
	}
	return nil
}

func tooComplex(asked string) error {
	return op.Refuse(op.TooComplex, "too many reservations lie where %.80q could match", asked).
		WithHint("narrow the pattern: begin it with the directory that is meant")
}

// near calls each for every pattern of the index that the prefixes let overlap,
// until it returns false. Too many are TooComplex.
func (s *search) near(p pattern, each func(candidate) (bool, error)) error {
	if s.dirs != nil && p.isPath() {
		return s.once(p, each)
	}
	n := 0
	counted := func(c candidate) (bool, error) {
		if n++; n > MaxCandidates {
			return false, tooComplex(p.asked)
		}
		if err := s.row(p); err != nil {
			return false, err
		}
		return each(c)
	}
	if p.isPath() {
		return s.above(p, counted)
	}
	paths, err := json.Marshal(ancestors(p.prefix))
	if err != nil {
		return err
	}
	after, before := below(p.prefix)
	_, err = s.query(counted, sqlNear, string(paths), s.now.UnixNano(), after, before)
	return err
}

// above is near for those whose prefix is the pattern's or above it.
func (s *search) above(p pattern, each func(candidate) (bool, error)) error {
	paths, err := json.Marshal(ancestors(p.prefix))
	if err != nil {
		return err
	}
	_, err = s.query(each, sqlAbove, string(paths), s.now.UnixNano())
	return err
}

func (s *search) query(each func(candidate) (bool, error), query string, args ...any) (next bool, err error) {
	rows, err := s.tx.Query(query, args...)
	if err != nil {
		return false, err
	}
	defer rows.Close()
	for rows.Next() {
		var c candidate
		if err := rows.Scan(&c.prefix, &c.pattern, &c.id, &c.agent, &c.uid, &c.mode, &c.fold, &c.scope, &c.path); err != nil {
			return false, err
		}
		if next, err := each(c); err != nil || !next {
			return false, err
		}
	}
	return true, rows.Err()
}
