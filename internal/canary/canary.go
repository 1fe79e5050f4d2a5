package canary

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"

	"gated/internal/audit"
	"gated/internal/op"
	"gated/internal/store"
)

// Schema is the table of the one row that holds the State, as JSON.
const Schema = `
CREATE TABLE canary(
	id    INTEGER PRIMARY KEY CHECK (id = 1),
	state BLOB NOT NULL
) STRICT;
`

// What one round may read. The first look at a log goes back no further than
// lookBack entries, and no look takes more than maxRounds.
const (
	batch     = 500
	lookBack  = 10_000
	maxRounds = 40
)

// Config says what a Canary watches.
type Config struct {
	Store  *store.Store
	Append func(*store.Tx, ...audit.Entry) error // writes entries with the gate's time
	Now    func() (now time.Time, believed bool) // the gate's time
	Rules  Rules
	Back   Back
}

// Canary keeps a State up to date with a log.
type Canary struct {
	Config
	turn  chan struct{} // holds one: whoever put it there may write the row
	shown atomic.Pointer[State]
}

// New returns a Canary that has not looked yet.
func New(c Config) *Canary { return &Canary{Config: c, turn: make(chan struct{}, 1)} }

// Shown returns what the last Step left. It is nil before the first one, and
// nobody changes it.
func (c *Canary) Shown() *State { return c.shown.Load() }

// Step counts what the log has by now, in transactions of at most 500 entries,
// and does what time brings. It takes at most 40 of them, so that it ends also
// where the log grows as fast as it is read. Errors are those of the store and of
// ctx; what was not counted is counted by the next Step.
func (c *Canary) Step(ctx context.Context) error {
	for range maxRounds {
		more, err := c.round(ctx)
		if err != nil || !more {
			return err
		}
	}
	return nil
}

// take waits for the turn to write the row, which those who wait have in their
// order, until ctx ends.
func (c *Canary) take(ctx context.Context) (release func(), err error) {
	select {
	case c.turn <- struct{}{}:
		return func() { <-c.turn }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: waiting for the canary: %w", store.ErrUnavailable, ctx.Err())
	}
}

// round reads and counts one batch, and reports whether there is more.
func (c *Canary) round(ctx context.Context) (more bool, err error) {
	release, err := c.take(ctx)
	if err != nil {
		return false, err
	}
	defer release()
	var s *State
	var entries []audit.Entry
	err = c.Store.View(ctx, func(tx *store.Tx) error {
		if s, err = load(tx); err != nil {
			return err
		}
		entries, err = audit.After(tx, s.Cursor, batch)
		return err
	})
	if err != nil {
		return false, err
	}
	now, believed := c.Now()
	changed := s.Pause(now, believed) || len(entries) > 0
	var out []audit.Entry
	for _, e := range entries {
		out = append(out, s.Take(c.Rules, c.Back, e)...)
	}
	if more = len(entries) == batch; !more && believed {
		out = append(out, s.Pass(c.Rules, c.Back, now)...)
	}
	if changed || len(out) > 0 {
		err = c.write(ctx, s, out)
	}
	if err == nil {
		c.shown.Store(s)
	}
	return more, err
}

// Accept ends the alert about the change of that entry, for an operator. It
// refuses, as UnknownTarget, where none stands, and waits for no more than one
// batch of a Step. Other errors are those of the store and of ctx.
func (c *Canary) Accept(ctx context.Context, by string, change int64) error {
	release, err := c.take(ctx)
	if err != nil {
		return err
	}
	defer release()
	var s *State
	err = c.Store.View(ctx, func(tx *store.Tx) (err error) { s, err = load(tx); return err })
	if err != nil {
		return err
	}
	now, _ := c.Now()
	out, ok := s.Accept(now, by, change)
	if !ok {
		return op.Refuse(op.UnknownTarget, "no alert about the change of entry %d stands", change).WithHint("gated status shows what the canary found")
	}
	if err = c.write(ctx, s, out); err == nil {
		c.shown.Store(s)
	}
	return err
}

// write stores the state and its entries as one.
func (c *Canary) write(ctx context.Context, s *State, out []audit.Entry) error {
	text, err := json.Marshal(s, json.Deterministic(true))
	if err != nil {
		return fmt.Errorf("encode the canary: %w", err)
	}
	return c.Store.Update(ctx, func(tx *store.Tx) error {
		_, err := tx.Exec(`INSERT INTO canary(id, state) VALUES(1, ?) ON CONFLICT(id) DO UPDATE SET state = excluded.state`, text)
		if err == nil && len(out) > 0 {
			err = c.Append(tx, out...)
		}
		return err
	})
}

// load reads the state; where there is none, one that begins with what the log
// has by now.
func load(tx *store.Tx) (*State, error) {
	var text []byte
	err := tx.QueryRow(`SELECT state FROM canary WHERE id = 1`).Scan(&text)
	if errors.Is(err, sql.ErrNoRows) {
		head, err := audit.ReadHead(tx)
		return &State{Cursor: max(head.Seq-lookBack, 0), Started: head.Seq > lookBack}, err
	}
	s := &State{}
	if err == nil {
		err = json.Unmarshal(text, s)
	}
	if err != nil {
		return nil, fmt.Errorf("read the canary: %w", err)
	}
	return s, nil
}
