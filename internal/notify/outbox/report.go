package outbox

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"gated/internal/base/store"
)

// Report is how one sink stands.
type Report struct {
	Sink      string     `json:"sink"`
	Delivered *time.Time `json:"last_delivered"` // null: never
	Queued    int        `json:"queued"`
	Held      int        `json:"held"`     // for a digest
	NextTry   *time.Time `json:"next_try"` // null: nothing waits
	Why       string     `json:"why"`      // why the message that was tried most was not taken; empty if none was tried
	Dead      []Letters  `json:"dead"`     // the newest first, at most MaxDead
	DeadCount int        `json:"dead_count"`
}

// Letters is a dead letter.
type Letters struct {
	ID    string    `json:"id"`
	Kind  string    `json:"kind"`
	Made  time.Time `json:"made"`
	Ended time.Time `json:"ended"`
	Tries int       `json:"tries"`
	Why   string    `json:"why"`
}

// MaxDead is the most dead letters of one sink in a report.
const MaxDead = 20

// Report says how sinks stand.
func (o *Outbox) Report(ctx context.Context, sinks []string) (out []Report, err error) {
	return out, o.store.View(ctx, func(tx *store.Tx) error {
		for _, sink := range sinks {
			r, err := report(tx, sink)
			if err != nil {
				return err
			}
			out = append(out, r)
		}
		return nil
	})
}

func report(tx *store.Tx, sink string) (Report, error) {
	r := Report{Sink: sink, Dead: []Letters{}}
	at, err := heard(tx, sink)
	if err != nil {
		return r, err
	}
	if !at.IsZero() {
		r.Delivered = &at
	}
	counts := `SELECT count(*) FILTER (WHERE state = 'queued'), count(*) FILTER (WHERE state = 'held'),
		count(*) FILTER (WHERE state = 'dead') FROM message WHERE sink = ?`
	if err := tx.QueryRow(counts, sink).Scan(&r.Queued, &r.Held, &r.DeadCount); err != nil {
		return r, err
	}
	if r.Queued > 0 {
		var next int64
		if err := tx.QueryRow(`SELECT min(next) FROM message WHERE sink = ? AND state = 'queued'`, sink).Scan(&next); err != nil {
			return r, err
		}
		err := tx.QueryRow(`SELECT why FROM message WHERE sink = ? AND state = 'queued' AND why <> '' ORDER BY tries DESC, id LIMIT 1`, sink).
			Scan(&r.Why)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return r, err
		}
		when := time.Unix(next, 0).UTC()
		r.NextTry = &when
	}
	rows, err := tx.Query(`SELECT mid, kind, made, done, tries, why FROM message WHERE sink = ? AND state = 'dead' ORDER BY done DESC, id DESC LIMIT ?`,
		sink, MaxDead)
	if err != nil {
		return r, err
	}
	for rows.Next() {
		var l Letters
		var made, done int64
		if err := rows.Scan(&l.ID, &l.Kind, &made, &done, &l.Tries, &l.Why); err != nil {
			return r, err
		}
		l.Made, l.Ended = time.Unix(made, 0).UTC(), time.Unix(done, 0).UTC()
		r.Dead = append(r.Dead, l)
	}
	return r, rows.Err()
}
