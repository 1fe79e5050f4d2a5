package reserve

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/go-json-experiment/json"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
)

// survey is what a search on a snapshot found: up to a number of reservations that overlap a claim, of any holder, in
// any mode, lapsed or not. It spares other writers the wait. It stays true, because an id's patterns never change and
// no id is used again. The transaction that decides reads holder and mode again.
type survey struct {
	hits
	through op.ReservationID
	begun   bool
	unseen  error // TooComplex: the search is not complete
}

const sqlStanding = `SELECT r.id, r.agent, r.uid, r.member, r.mode FROM json_each(?) AS j CROSS JOIN reservations AS r ON r.id = j.value
	WHERE r.expires_at > ?`

func (b *Book) search(tx *store.Tx, now time.Time, left *int64, w *wish, max int) *search {
	return &search{tx: tx, cache: b.patterns, now: now, left: left, region: w.region, max: max, hits: hits{}}
}

// deciding is update for a decision that needs a comparison. A survey comes before the transaction. fn gets what the
// survey found, as it is now, and what is new since. If that is too much for a transaction, the survey continues first.
func (b *Book) deciding(ctx context.Context, w *wish, fn func(*store.Tx, *outcome, *search) error) error {
	for round := 1; ; round++ {
		if err := b.survey(ctx, w); err != nil {
			return err
		}
		var late bool
		err := b.update(ctx, func(tx *store.Tx, out *outcome) error {
			s, err := b.present(tx, out, w)
			if late = errors.Is(err, refusal.TooComplex); err != nil {
				return err
			}
			return fn(tx, out, s)
		})
		if !late || round == maxSurveys {
			return err
		}
	}
}

// survey searches what a claim overlaps. If it ran before, it searches what is new since. A long search waits for the
// uid's turn, unless the survey already found something in the way.
func (b *Book) survey(ctx context.Context, w *wish) error {
	if err := b.look(ctx, w, b.inside); err != nil || w.known.unseen == nil || len(w.inTheWay(w.known.hits)) > 0 {
		return err
	}
	done, err := b.turn(ctx, w.holder.Account().Lane())
	if err != nil {
		return err
	}
	defer done()
	if err := b.look(ctx, w, maxWork); err != nil || len(w.inTheWay(w.known.hits)) > 0 {
		return err
	}
	return w.known.unseen
}

func (b *Book) look(ctx context.Context, w *wish, work int64) error {
	return b.snapshot(ctx, func(tx *store.Tx) error {
		var newest op.ReservationID
		if err := tx.QueryRow(sqlNewest).Scan(&newest); err != nil {
			return err
		}
		// At time 0 nothing has expired: a reader's clock may be ahead of the writer that renews a reservation just in
		// time.
		s := b.search(tx, time.Unix(0, 0), &work, w, maxSurveyed)
		var err error
		if known := w.known; !known.begun || known.unseen != nil {
			err = s.near()
		} else {
			s.hits = known.hits
			err = s.newer(known.through)
		}
		if s.more {
			err = tooComplex(w.patterns[0].asked)
		}
		if err != nil && !errors.Is(err, refusal.TooComplex) {
			return err
		}
		*w.known = survey{s.hits, newest, true, err}
		return nil
	})
}

// present returns those of a survey that are in force now, and what is new since. It is TooComplex if that is not
// complete, unless something is in the way already.
func (b *Book) present(tx *store.Tx, out *outcome, w *wish) (*search, error) {
	s := b.search(tx, out.now, &out.left, w, maxSurveyed)
	err := s.standing(w.known.hits)
	if err == nil {
		err = s.newer(w.known.through)
	}
	if err == nil && s.more {
		err = tooComplex(w.patterns[0].asked)
	}
	if err == nil {
		err = w.known.unseen
	}
	if errors.Is(err, refusal.TooComplex) && len(w.inTheWay(s.hits)) > 0 {
		s.more, err = true, nil
	}
	return s, err
}

// standing finds those of a survey that are in force.
func (s *search) standing(known hits) error {
	if len(known) == 0 {
		return nil
	}
	ids, err := json.Marshal(slices.Collect(maps.Keys(known)))
	if err != nil {
		return err
	}
	rows, err := s.tx.Query(sqlStanding, string(ids), s.now.UnixNano())
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var now hit
		if err := rows.Scan(&now.id, &now.agent, &now.uid, &now.member, &now.mode); err != nil {
			return err
		}
		h := *known[now.id]
		h.agent, h.uid, h.member, h.mode = now.agent, now.uid, now.member, now.mode
		s.hits[h.id] = &h
	}
	return rows.Err()
}

// turn waits until a uid may search for long: one search at a time for each uid, and a few in all. done ends the turn.
func (b *Book) turn(ctx context.Context, uid uint32) (done func(), err error) {
	if done, err = b.turns.Take(ctx, uid); err != nil {
		return nil, fmt.Errorf("waiting to search: %w", err)
	}
	return done, nil
}
