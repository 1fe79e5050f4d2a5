package outbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"gated/internal/base/store"
	"gated/internal/notify/message"
)

// Stored is a message of one sink.
type Stored struct {
	Row     int64
	Message message.Message
	Made    time.Time
	Since   time.Time // from when on it counts as given up later: its making, or its replay
	Tries   int
	Refused int // how many of the tries got an answer that another try will not change
}

// Next returns the message of a sink that is to be sent first, and when. An older message of the same thread always goes
// first. ok is false if none waits.
func (o *Outbox) Next(ctx context.Context, sink string) (s Stored, due time.Time, ok bool, err error) {
	err = o.store.View(ctx, func(tx *store.Tx) error {
		var body []byte
		var made, since, next int64
		if err := tx.QueryRow(`SELECT id, body, made, since, next, tries, refused FROM message m WHERE sink = ? AND state = 'queued'
			AND NOT EXISTS (SELECT 1 FROM message o WHERE o.sink = m.sink AND o.state = 'queued' AND o.thread = m.thread AND o.id < m.id)
			ORDER BY next, tries, id LIMIT 1`, sink).Scan(&s.Row, &body, &made, &since, &next, &s.Tries, &s.Refused); err != nil {
			return err
		}
		s.Made, s.Since, due = time.Unix(made, 0).UTC(), time.Unix(since, 0).UTC(), time.Unix(next, 0).UTC()
		s.Message, err = message.Parse(body)
		return err
	})
	if errors.Is(err, sql.ErrNoRows) {
		return Stored{}, time.Time{}, false, nil
	}
	return s, due, err == nil, err
}

// Delivered marks a message as taken by its sink.
func (o *Outbox) Delivered(ctx context.Context, s Stored, sink string, now time.Time) error {
	return o.store.Update(ctx, func(tx *store.Tx) error {
		if _, err := tx.Exec(`UPDATE message SET state = 'delivered', done = ?, tries = tries + 1, why = '' WHERE id = ? AND state = 'queued'`,
			now.Unix(), s.Row); err != nil {
			return err
		}
		_, err := tx.Exec(`INSERT INTO heard(sink, at) VALUES(?, ?) ON CONFLICT (sink) DO UPDATE SET at = excluded.at`, sink, now.Unix())
		return err
	})
}

// Failed notes a try that did not succeed, and when the next one is. No message of the sink is tried before rests.
// refused says that the same call would fail again.
func (o *Outbox) Failed(ctx context.Context, s Stored, sink string, next, rests time.Time, refused bool, why string) error {
	return o.store.Update(ctx, func(tx *store.Tx) error {
		if _, err := tx.Exec(`UPDATE message SET tries = tries + 1, refused = refused + ?, next = ?, why = ? WHERE id = ? AND state = 'queued'`,
			refused, next.Unix(), why, s.Row); err != nil {
			return err
		}
		_, err := tx.Exec(`UPDATE message SET next = ? WHERE sink = ? AND state = 'queued' AND next < ?`, rests.Unix(), sink, rests.Unix())
		return err
	})
}

// GiveUp makes a message a dead letter.
func (o *Outbox) GiveUp(ctx context.Context, s Stored, now time.Time, why string) error {
	return o.store.Update(ctx, func(tx *store.Tx) error {
		_, err := tx.Exec(`UPDATE message SET state = 'dead', done = ?, tries = tries + 1, why = ? WHERE id = ? AND state = 'queued'`,
			now.Unix(), why, s.Row)
		return err
	})
}

// Replay queues dead letters again, all or one by its id, of all sinks or of one. It returns how many.
func (o *Outbox) Replay(ctx context.Context, id, sink string, now time.Time) (n int64, err error) {
	err = o.store.Update(ctx, func(tx *store.Tx) error {
		n, err = tx.Exec(`UPDATE message SET state = 'queued', done = NULL, tries = 0, refused = 0, next = ?, since = ?, why = ''
			WHERE state = 'dead' AND (? = '' OR mid = ?) AND (? = '' OR sink = ?)`, now.Unix(), now.Unix(), id, id, sink, sink)
		return err
	})
	return n, err
}

// Digest makes one message of those that a sink's storm holds, if the oldest was held for within. make gets what is
// held, the oldest first: each thread once, with its last message.
func (o *Outbox) Digest(ctx context.Context, sink string, within time.Duration, now time.Time,
	make func(total int, last []message.Message) message.Message) (made bool, err error) {
	var total int
	err = o.store.View(ctx, func(tx *store.Tx) (err error) {
		total, err = held(tx, sink, now.Add(-within))
		return err
	})
	if err != nil || total == 0 {
		return false, err
	}
	err = o.store.Update(ctx, func(tx *store.Tx) error {
		made = false
		total, err := held(tx, sink, now.Add(-within))
		if err != nil || total == 0 {
			return err
		}
		last, err := lastOfThreads(tx, sink)
		if err != nil {
			return err
		}
		m := make(total, last)
		body, err := m.JSON()
		if err != nil {
			return err
		}
		if _, err := tx.Exec(`UPDATE message SET state = 'digested', done = ?, why = ? WHERE sink = ? AND state = 'held'`, now.Unix(),
			"in the digest "+m.ID, sink); err != nil {
			return err
		}
		_, err = tx.Exec(`INSERT INTO message(sink, mid, thread, kind, body, state, made, next, since)
			VALUES(?, ?, ?, ?, ?, 'queued', ?, ?, ?) ON CONFLICT (sink, mid) DO NOTHING`, sink, m.ID, m.Thread, string(m.Kind), body,
			now.Unix(), now.Unix(), now.Unix())
		made = err == nil
		return err
	})
	return made, err
}

// held returns how many messages a sink's storm holds, or 0 if none is from before a time.
func held(tx *store.Tx, sink string, before time.Time) (total int, err error) {
	var oldest sql.NullInt64
	err = tx.QueryRow(`SELECT count(*), min(made) FROM message WHERE sink = ? AND state = 'held'`, sink).Scan(&total, &oldest)
	if err != nil || oldest.Int64 > before.Unix() {
		return 0, err
	}
	return total, nil
}

func lastOfThreads(tx *store.Tx, sink string) ([]message.Message, error) {
	rows, err := tx.Query(`SELECT body FROM message m WHERE sink = ? AND state = 'held' AND NOT EXISTS (
		SELECT 1 FROM message o WHERE o.sink = m.sink AND o.state = 'held' AND o.thread = m.thread AND o.id > m.id) ORDER BY id`, sink)
	if err != nil {
		return nil, err
	}
	var out []message.Message
	for rows.Next() {
		var body []byte
		if err := rows.Scan(&body); err != nil {
			return nil, err
		}
		m, err := message.Parse(body)
		if err != nil {
			return nil, fmt.Errorf("a stored message: %w", err)
		}
		out = append(out, m)
	}
	return out, rows.Err()
}
