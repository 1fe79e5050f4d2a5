package reserve

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gated/internal/op"
	"gated/internal/store"
)

// survey is what a search outside the writer's transaction found, so that others'
// writes do not wait for it: every reservation up to a number that overlaps a
// region, whosever it is and in whichever mode, be its time up or not. That stays
// true, for patterns never change; who has them and how is read again in the
// transaction. It belongs to one call.
type survey struct {
	sights
	through op.ReservationID
}

const sqlStanding = `SELECT agent, uid, mode FROM reservations WHERE id = ? AND expires_at > ?`

// deciding is update for what has to search. fn asks look for what it found. What
// takes long to find is found before the transaction, by one at a time for each
// uid; then fn looks at what is new since.
func (b *Book) deciding(ctx context.Context, uid uint32, known *survey, fn func(*store.Tx, *outcome) error) error {
	for round := 0; ; round++ {
		var beyond *region
		err := b.update(ctx, func(tx *store.Tx, out *outcome) error {
			out.known = known
			err := fn(tx, out)
			beyond = out.beyond
			return err
		})
		if beyond == nil || round == maxSurveys || !errors.Is(err, op.TooComplex) {
			return err
		}
		if err := b.survey(ctx, uid, *beyond, known); err != nil {
			return err
		}
	}
}

// look returns what there is that a region overlaps. Where that takes too long
// here and nothing is in the way yet, it is TooComplex, and the next attempt has a
// survey.
func (s *search) look(out *outcome, r region) (*sights, error) {
	seen, err := s.seen(r, out.known)
	if err != nil || seen.unseen == nil && out.known.unseen == nil {
		return seen, err
	}
	if found, _ := s.conflicts(seen); len(found) > 0 {
		seen.more = true
		return seen, nil
	}
	if out.known.unseen != nil {
		return nil, out.known.unseen
	}
	out.beyond = &r
	return nil, seen.unseen
}

// seen is what a region overlaps: of what is known, what stands, and what is newer.
func (s *search) seen(r region, known *survey) (*sights, error) {
	if known.through == 0 {
		return s.run(r)
	}
	out, err := s.standing(known)
	if err == nil {
		err = s.newer(out, r, known.through)
	}
	return out, err
}

// standing is what of a survey is in force, as it is now.
func (s *search) standing(known *survey) (*sights, error) {
	out := &sights{hits: make(map[op.ReservationID]*hit, len(known.hits))}
	for id, h := range known.hits {
		now := *h
		rows, err := s.tx.Query(sqlStanding, int64(id), s.now.UnixNano())
		if err != nil {
			return nil, err
		}
		for rows.Next() {
			if err := rows.Scan(&now.agent, &now.uid, &now.mode); err != nil {
				return nil, err
			}
			out.hits[id] = &now
			if s.all {
				out.n++
			}
		}
		if err := errors.Join(rows.Err(), rows.Close()); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// turn waits until a uid may search outside the writer: each one search at a time,
// and everybody together a few. done ends it.
func (b *Book) turn(ctx context.Context, uid uint32) (done func(), err error) {
	if done, err = b.turns.Take(ctx, uid); err != nil {
		return nil, fmt.Errorf("waiting to search: %w", err)
	}
	return done, nil
}

// survey finds what overlaps a region, or only what is new since the last time.
func (b *Book) survey(ctx context.Context, uid uint32, r region, known *survey) error {
	done, err := b.turn(ctx, uid)
	if err != nil {
		return err
	}
	defer done()
	left := int64(maxWork)
	return b.view(ctx, func(tx *store.Tx, _ time.Time) error {
		var newest op.ReservationID
		if err := tx.QueryRow(sqlNewest).Scan(&newest); err != nil {
			return err
		}
		// At the beginning of time nothing has expired. A reader's clock may be ahead
		// of a writer's that renews what would just have expired.
		s := search{tx: tx, cache: b.patterns, now: time.Unix(0, 0), left: &left, all: true, max: maxSurveyed}
		seen, err := s.seen(r, known)
		if err != nil {
			return err
		}
		known.sights = *seen
		if known.more && known.unseen == nil {
			known.unseen = tooComplex(r.patterns[0].asked)
		}
		known.through = max(newest, 1)
		return nil
	})
}
