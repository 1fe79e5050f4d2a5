package outbox

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"

	"gated/internal/base/store"
)

// Told returns the sinks that were told about a request, and for each whether it was asked for a signature.
func (o *Outbox) Told(ctx context.Context, request string) (map[string]bool, error) {
	out := map[string]bool{}
	return out, o.store.View(ctx, func(tx *store.Tx) error {
		rows, err := tx.Query(`SELECT sink, asks FROM told WHERE request = ?`, request)
		if err != nil {
			return err
		}
		for rows.Next() {
			var name string
			var asks bool
			if err := rows.Scan(&name, &asks); err != nil {
				return err
			}
			out[name] = asks
		}
		return rows.Err()
	})
}

// Due is an escalation whose time has come.
type Due struct{ Request, Sink string }

// maxDue is the most escalations in one answer.
const maxDue = 100

// Due returns the escalations whose time has come, the oldest first.
func (o *Outbox) Due(ctx context.Context, now time.Time) (out []Due, err error) {
	return out, o.store.View(ctx, func(tx *store.Tx) error {
		rows, err := tx.Query(`SELECT request, sink FROM escalation WHERE due <= ? ORDER BY due, request LIMIT ?`, now.Unix(), maxDue)
		if err != nil {
			return err
		}
		for rows.Next() {
			var d Due
			if err := rows.Scan(&d.Request, &d.Sink); err != nil {
				return err
			}
			out = append(out, d)
		}
		return rows.Err()
	})
}

// Escalated ends an escalation and stores what comes of it: a message, the next escalation, or neither.
func (o *Outbox) Escalated(ctx context.Context, d Due, now time.Time, next *Escalation, letters ...Letter) error {
	return o.store.Update(ctx, func(tx *store.Tx) error {
		if _, err := tx.Exec(`DELETE FROM escalation WHERE request = ? AND sink = ?`, d.Request, d.Sink); err != nil {
			return err
		}
		if next != nil {
			if _, err := tx.Exec(`INSERT INTO escalation(request, sink, due) VALUES(?, ?, ?) ON CONFLICT DO NOTHING`, d.Request,
				next.Sink, next.Due.Unix()); err != nil {
				return err
			}
		}
		return putAll(tx, now, letters)
	})
}

// Raise stores the messages of an alarm, unless it stands already. It returns false then.
func (o *Outbox) Raise(ctx context.Context, name string, now time.Time, letters ...Letter) (raised bool, err error) {
	standing, err := o.Alarms(ctx)
	if _, ok := standing[name]; err != nil || ok {
		return false, err
	}
	err = o.store.Update(ctx, func(tx *store.Tx) error {
		n, err := tx.Exec(`INSERT INTO alarm(name, since, mid) VALUES(?, ?, '') ON CONFLICT DO NOTHING`, name, now.Unix())
		if raised = err == nil && n == 1; !raised {
			return err
		}
		return putAll(tx, now, letters)
	})
	return raised && err == nil, err
}

// Lower ends an alarm and stores the messages about that. If the alarm does not stand, it does nothing.
func (o *Outbox) Lower(ctx context.Context, name string, now time.Time, letters ...Letter) error {
	standing, err := o.Alarms(ctx)
	if _, ok := standing[name]; err != nil || !ok {
		return err
	}
	return o.store.Update(ctx, func(tx *store.Tx) error {
		n, err := tx.Exec(`DELETE FROM alarm WHERE name = ?`, name)
		if err != nil || n == 0 {
			return err
		}
		return putAll(tx, now, letters)
	})
}

// Alarms returns the alarms that stand, with their begin.
func (o *Outbox) Alarms(ctx context.Context) (map[string]time.Time, error) {
	out := map[string]time.Time{}
	return out, o.store.View(ctx, func(tx *store.Tx) error {
		rows, err := tx.Query(`SELECT name, since FROM alarm`)
		if err != nil {
			return err
		}
		for rows.Next() {
			var name string
			var since int64
			if err := rows.Scan(&name, &since); err != nil {
				return err
			}
			out[name] = time.Unix(since, 0).UTC()
		}
		return rows.Err()
	})
}

// Prune removes what is old: messages that are done, and requests that sinks were told about.
func (o *Outbox) Prune(ctx context.Context, now time.Time) error {
	return o.store.Update(ctx, func(tx *store.Tx) error {
		old := now.Add(-KeepDone).Unix()
		if _, err := tx.Exec(`DELETE FROM message WHERE done < ?`, old); err != nil {
			return err
		}
		if _, err := tx.Exec(`DELETE FROM told WHERE at < ?`, now.Add(-KeepTold).Unix()); err != nil {
			return err
		}
		sinks, err := sinksOf(tx)
		for _, sink := range sinks {
			if _, err := tx.Exec(`DELETE FROM message WHERE sink = ? AND done IS NOT NULL AND id <= (
				SELECT id FROM message WHERE sink = ? AND done IS NOT NULL ORDER BY id DESC LIMIT 1 OFFSET ?)`, sink, sink, MaxDone); err != nil {
				return err
			}
		}
		return err
	})
}

// heard returns when a sink last took a message; the zero time if it never did.
func heard(tx *store.Tx, sink string) (time.Time, error) {
	var at int64
	err := tx.QueryRow(`SELECT at FROM heard WHERE sink = ?`, sink).Scan(&at)
	if errors.Is(err, sql.ErrNoRows) {
		return time.Time{}, nil
	}
	return time.Unix(at, 0).UTC(), err
}

// Forget drops messages for sinks that the settings do not have any more.
func (o *Outbox) Forget(ctx context.Context, sinks []string, now time.Time) error {
	return o.store.Update(ctx, func(tx *store.Tx) error {
		gone, err := sinksOf(tx)
		if err != nil {
			return err
		}
		gone = slices.DeleteFunc(gone, func(name string) bool { return slices.Contains(sinks, name) })
		for _, name := range gone {
			if _, err := tx.Exec(`UPDATE message SET state = 'dropped', done = ?, why = 'the settings have no such sink'
				WHERE sink = ? AND state IN ('queued', 'held')`, now.Unix(), name); err != nil {
				return err
			}
		}
		return nil
	})
}

// sinksOf returns the names of all sinks that have messages.
func sinksOf(tx *store.Tx) (out []string, err error) {
	rows, err := tx.Query(`SELECT DISTINCT sink FROM message`)
	if err != nil {
		return nil, err
	}
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, err
		}
		out = append(out, name)
	}
	return out, rows.Err()
}
