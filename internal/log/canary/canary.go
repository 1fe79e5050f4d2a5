// Package canary watches what a gate decides after a change of policy, trust or
// version. It folds the audit log, entry by entry, into a state of bounded size.
// This has the latest decisions and, after a change, those before it to compare
// with. The state and its place in the log are one row, written together, so each
// decision counts once, whatever is killed.
//
// It only reads and reports: no step waits for it, and it takes no lock of the
// gate's.
package canary

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"

	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/log/audit"
)

// Schema is the table of the one row with the State, as JSON.
const Schema = `
CREATE TABLE canary(
	id    INTEGER PRIMARY KEY CHECK (id = 1),
	state BLOB NOT NULL
) STRICT;
`

// What one round may read. The first Step of a log begins at most lookBack entries
// before its end. No Step takes more than maxRounds.
const (
	batch     = 500
	lookBack  = 10_000
	maxRounds = 40
)

// Config says what a Canary watches.
type Config struct {
	Store  *store.Store
	Append func(*store.Tx, ...audit.Entry) error // writes entries with the gate's time
	Now    func() (now time.Time, trusted bool)  // the gate's time
	Rules  Rules
	Back   Back
}

// Canary keeps a State up to date with a log.
type Canary struct {
	Config
	turn  chan struct{} // full while a caller may write the row
	shown atomic.Pointer[State]
}

// New returns a Canary that has read nothing yet.
func New(c Config) *Canary { return &Canary{Config: c, turn: make(chan struct{}, 1)} }

// Shown returns the state after the last Step. It is nil before the first one, and
// it never changes.
func (c *Canary) Shown() *State { return c.shown.Load() }

// Step counts the new entries of the log, in transactions of at most 500 entries,
// and gives a verdict if one is due. It takes at most 40 transactions, so it ends
// even if the log grows as fast as Step reads. Errors are those of the store and of
// ctx. The next Step counts what this one did not.
func (c *Canary) Step(ctx context.Context) error {
	for range maxRounds {
		more, err := c.round(ctx)
		if err != nil || !more {
			return err
		}
	}
	return nil
}

// round reads and counts one batch, and reports whether there are more entries.
func (c *Canary) round(ctx context.Context) (more bool, err error) {
	err = c.change(ctx, func(s *State, entries []audit.Entry) ([]audit.Entry, bool, error) {
		now, trusted := c.Now()
		changed := s.Pause(now, trusted) || len(entries) > 0
		var out []audit.Entry
		for _, e := range entries {
			out = append(out, s.Take(c.Rules, c.Back, e)...)
		}
		if more = len(entries) == batch; !more && trusted {
			out = append(out, s.Pass(c.Rules, c.Back, now)...)
		}
		return out, changed || len(out) > 0, nil
	})
	return more, err
}

// Accept ends the alert about the change at that entry, for an operator. If there is
// no such alert, it refuses as UnknownTarget. It waits for at most one batch of a
// Step. Other errors are those of the store and of ctx.
func (c *Canary) Accept(ctx context.Context, by string, change int64) error {
	return c.change(ctx, func(s *State, _ []audit.Entry) ([]audit.Entry, bool, error) {
		now, _ := c.Now()
		out, ok := s.Accept(now, by, change)
		if !ok {
			return nil, false, refusal.New(refusal.UnknownTarget, "there is no alert about the change of entry %d", change).
				WithHint("gated status shows what the canary found")
		}
		return out, true, nil
	})
}

// change reads the state and the entries after it, and calls do outside any
// transaction. If do reports a change, it writes the state and do's entries in one
// transaction. Callers get their turns in order; change waits for its turn until ctx
// ends.
func (c *Canary) change(ctx context.Context, do func(*State, []audit.Entry) (out []audit.Entry, changed bool, err error)) error {
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
		return fmt.Errorf("%w: waiting for the canary: %w", store.ErrUnavailable, ctx.Err())
	}
	var s *State
	var entries []audit.Entry
	err := c.Store.View(ctx, func(tx *store.Tx) (err error) {
		if s, err = load(tx); err != nil {
			return err
		}
		// Entries that are archived are older than what the canary compares.
		bound, err := audit.Bound(tx)
		if err != nil {
			return err
		}
		s.Cursor = max(s.Cursor, bound.Seq)
		entries, err = audit.After(tx, s.Cursor, batch)
		return err
	})
	if err != nil {
		return err
	}
	out, changed, err := do(s, entries)
	if err == nil && changed {
		err = c.write(ctx, s, out)
	}
	if err == nil {
		c.shown.Store(s)
	}
	return err
}

// write writes the state and its entries in one transaction.
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

// load reads the state. If there is none, it begins one near the end of the log.
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
