// Package outbox keeps on disk what gated notify has read and what it still has to send. One transaction moves the cursor
// and stores the messages that come from the entry, so a kill at any point neither loses a message nor makes one twice.
package outbox

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"time"

	"gated/internal/base/store"
	"gated/internal/notify/message"
)

// The states of a message.
const (
	Queued    = "queued"    // it is to be sent
	Held      = "held"      // a digest will have it
	Digested  = "digested"  // a digest has it
	Delivered = "delivered" // the sink took it
	Dead      = "dead"      // it is given up
	Dropped   = "dropped"   // it was about a gate that is not there any more
)

// Limits of one sink.
const (
	// MaxQueued is the most messages that wait for one sink. Further ones are dead at once.
	MaxQueued = 5000
	// MaxDone is how many delivered, dead and dropped messages of a sink are kept.
	MaxDone = 2000
	// KeepDone is how long they are kept.
	KeepDone = 30 * 24 * time.Hour
	// KeepTold is how long a sink still gets updates about a request of which it was told.
	KeepTold = 365 * 24 * time.Hour
)

var migrations = []store.Migration{{Version: 1, Name: "outbox", SQL: `
CREATE TABLE cursor (
	one  INTEGER PRIMARY KEY CHECK (one = 1),
	gate TEXT NOT NULL,
	seq  INTEGER NOT NULL CHECK (seq >= 0),
	hash TEXT NOT NULL,
	era  INTEGER NOT NULL
) STRICT;
CREATE TABLE message (
	id      INTEGER PRIMARY KEY AUTOINCREMENT,
	sink    TEXT NOT NULL,
	mid     TEXT NOT NULL,
	thread  TEXT NOT NULL,
	kind    TEXT NOT NULL,
	body    BLOB NOT NULL,
	state   TEXT NOT NULL CHECK (state IN ('queued', 'held', 'digested', 'delivered', 'dead', 'dropped')),
	made    INTEGER NOT NULL,
	next    INTEGER NOT NULL,
	tries   INTEGER NOT NULL DEFAULT 0,
	refused INTEGER NOT NULL DEFAULT 0,
	since   INTEGER NOT NULL,
	done    INTEGER,
	why     TEXT NOT NULL DEFAULT '',
	UNIQUE (sink, mid)
) STRICT;
CREATE INDEX message_due ON message (sink, state, next, tries);
CREATE INDEX message_made ON message (sink, made);
CREATE INDEX message_thread ON message (sink, thread, state);
CREATE TABLE told (
	request TEXT NOT NULL,
	sink    TEXT NOT NULL,
	asks    INTEGER NOT NULL CHECK (asks IN (0, 1)),
	at      INTEGER NOT NULL,
	PRIMARY KEY (request, sink)
) STRICT;
CREATE TABLE escalation (
	request TEXT NOT NULL,
	sink    TEXT NOT NULL,
	due     INTEGER NOT NULL,
	PRIMARY KEY (request, sink)
) STRICT;
CREATE TABLE alarm (
	name  TEXT PRIMARY KEY,
	since INTEGER NOT NULL,
	mid   TEXT NOT NULL
) STRICT;
CREATE TABLE heard (
	sink TEXT PRIMARY KEY,
	at   INTEGER NOT NULL
) STRICT;
`}}

// Outbox is an open database.
type Outbox struct{ store *store.Store }

// Open opens the outbox at path, or makes it. Errors are those of store.Open.
func Open(ctx context.Context, path string, logger *slog.Logger) (*Outbox, error) {
	s, err := store.Open(ctx, path, store.Options{Migrations: migrations, Logger: logger})
	if err != nil {
		return nil, err
	}
	return &Outbox{s}, nil
}

// OpenReadOnly opens an outbox to read it, beside a process that writes it.
func OpenReadOnly(ctx context.Context, path string) (*Outbox, error) {
	s, err := store.OpenReadOnly(ctx, path, store.Options{Migrations: migrations})
	if err != nil {
		return nil, err
	}
	return &Outbox{s}, nil
}

// Close closes the database.
func (o *Outbox) Close() error { return o.store.Close() }

// Cursor is the last entry of a gate's log that was handled.
type Cursor struct {
	Gate string
	Seq  int64
	Hash string // hex SHA-256 of its text; empty if notify never saw that entry
	// Era is when a log of this gate id began anew, in Unix seconds, because its numbers then mean other entries; else 0.
	Era int64
}

// Cursor returns the cursor; false before the first start.
func (o *Outbox) Cursor(ctx context.Context) (c Cursor, ok bool, err error) {
	err = o.store.View(ctx, func(tx *store.Tx) error {
		return tx.QueryRow(`SELECT gate, seq, hash, era FROM cursor`).Scan(&c.Gate, &c.Seq, &c.Hash, &c.Era)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return Cursor{}, false, nil
	}
	return c, err == nil, err
}

// Letter is a message for one sink, with that sink's rules.
type Letter struct {
	Sink    string
	Message message.Message
	Asks    bool // it asks the sink's people for a signature
	Told    bool // from now on the sink gets updates about the message's request
	Storm   Storm
	// Next tells the next sink at a time if the request still waits; nil: none.
	Next *Escalation
}

// Storm says when messages are held for a digest. More than More messages within Within begin one. Zero holds none.
type Storm struct {
	More   int
	Within time.Duration
}

// Escalation is a sink that is told later.
type Escalation struct {
	Sink string
	Due  time.Time
}

// ErrBehind is returned when a cursor is before the stored one of the same gate and era. Nothing is stored then.
var ErrBehind = errors.New("the cursor would go back")

// Handled stores the messages that come from an entry, and moves the cursor to it. ended names a request that is over,
// or is empty. ErrBehind: a later entry was handled already.
func (o *Outbox) Handled(ctx context.Context, c Cursor, now time.Time, ended string, letters ...Letter) error {
	return o.store.Update(ctx, func(tx *store.Tx) error {
		var later int
		err := tx.QueryRow(`SELECT count(*) FROM cursor WHERE gate = ? AND era = ? AND seq > ?`, c.Gate, c.Era, c.Seq).Scan(&later)
		if err != nil {
			return err
		}
		if later > 0 {
			return ErrBehind
		}
		if err := setCursor(tx, c); err != nil {
			return err
		}
		if err := putAll(tx, now, letters); err != nil {
			return err
		}
		if ended == "" {
			return nil
		}
		_, err = tx.Exec(`DELETE FROM escalation WHERE request = ?`, ended)
		return err
	})
}

// Put stores messages that come from no entry.
func (o *Outbox) Put(ctx context.Context, now time.Time, letters ...Letter) error {
	return o.store.Update(ctx, func(tx *store.Tx) error { return putAll(tx, now, letters) })
}

// Begin makes the cursor anew: at the first start, and after the gate's id changed. Messages about requests of the gate
// before are dropped, because nothing can be signed there any more. Alarms are still sent.
func (o *Outbox) Begin(ctx context.Context, c Cursor, now time.Time, letters ...Letter) error {
	return o.store.Update(ctx, func(tx *store.Tx) error {
		if _, err := tx.Exec(`UPDATE message SET state = 'dropped', done = ?, why = 'the gate it was about is another one now'
			WHERE state IN ('queued', 'held') AND kind NOT IN ('alarm', 'alarm-over')`, now.Unix()); err != nil {
			return err
		}
		for _, q := range []string{`DELETE FROM told`, `DELETE FROM escalation`} {
			if _, err := tx.Exec(q); err != nil {
				return err
			}
		}
		if err := setCursor(tx, c); err != nil {
			return err
		}
		return putAll(tx, now, letters)
	})
}

func setCursor(tx *store.Tx, c Cursor) error {
	_, err := tx.Exec(`INSERT INTO cursor(one, gate, seq, hash, era) VALUES(1, ?, ?, ?, ?)
		ON CONFLICT (one) DO UPDATE SET gate = excluded.gate, seq = excluded.seq, hash = excluded.hash, era = excluded.era`, c.Gate, c.Seq,
		c.Hash, c.Era)
	return err
}

func putAll(tx *store.Tx, now time.Time, letters []Letter) error {
	for _, l := range letters {
		if err := put(tx, now, l); err != nil {
			return err
		}
	}
	return nil
}

// put stores one message. A message of that sink and id that is there already is not stored again.
func put(tx *store.Tx, now time.Time, l Letter) error {
	body, err := l.Message.JSON()
	if err != nil {
		return err
	}
	state, why, err := admit(tx, now, l)
	if err != nil {
		return err
	}
	var done *int64
	if state == Dead {
		at := now.Unix()
		done = &at
	}
	if _, err := tx.Exec(`INSERT INTO message(sink, mid, thread, kind, body, state, made, next, since, done, why)
		VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (sink, mid) DO NOTHING`, l.Sink, l.Message.ID, l.Message.Thread,
		string(l.Message.Kind), body, state, now.Unix(), now.Unix(), now.Unix(), done, why); err != nil {
		return err
	}
	if l.Told && l.Message.Request != nil {
		if _, err := tx.Exec(`INSERT INTO told(request, sink, asks, at) VALUES(?, ?, ?, ?)
			ON CONFLICT (request, sink) DO UPDATE SET asks = max(asks, excluded.asks)`, l.Message.Request.ID, l.Sink, l.Asks,
			now.Unix()); err != nil {
			return err
		}
	}
	if l.Next == nil {
		return nil
	}
	_, err = tx.Exec(`INSERT INTO escalation(request, sink, due) VALUES(?, ?, ?) ON CONFLICT DO NOTHING`, l.Message.Request.ID,
		l.Next.Sink, l.Next.Due.Unix())
	return err
}

// admit decides whether a new message is sent, held for a digest, or given up because too many wait.
func admit(tx *store.Tx, now time.Time, l Letter) (state, why string, err error) {
	var waiting, recent, held int
	if err := tx.QueryRow(`SELECT count(*) FROM message WHERE sink = ? AND state IN ('queued', 'held')`, l.Sink).Scan(&waiting); err != nil {
		return "", "", err
	}
	if waiting >= MaxQueued {
		return Dead, "too many messages wait for this sink", nil
	}
	if l.Storm.More == 0 {
		return Queued, "", nil
	}
	if err := tx.QueryRow(`SELECT count(*) FROM message WHERE sink = ? AND state = 'held'`, l.Sink).Scan(&held); err != nil {
		return "", "", err
	}
	if err := tx.QueryRow(`SELECT count(*) FROM message WHERE sink = ? AND made > ? AND kind NOT IN ('alarm', 'alarm-over', 'digest')`,
		l.Sink, now.Add(-l.Storm.Within).Unix()).Scan(&recent); err != nil {
		return "", "", err
	}
	if held > 0 || recent >= l.Storm.More {
		return Held, "", nil
	}
	return Queued, "", nil
}
