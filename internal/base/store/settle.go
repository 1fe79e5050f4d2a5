package store

import (
	"context"
	"errors"
	"fmt"
)

// noDeadline is the writer's context. Functions never see a caller's context, because a cancelled statement ends the
// transaction of the whole group.
var noDeadline = context.Background()

// open makes sure that the writer has a connection and knows the counter.
func (w *writer) open() error {
	if w.session != nil {
		return nil
	}
	s, err := openSession(noDeadline, w.store.path, writing)
	if err != nil {
		return fmt.Errorf("open the writer's connection: %w", err)
	}
	n, err := s.counter()
	if err == nil && w.store.keeper != nil {
		err = s.startCapture(w.store.local)
	}
	if err != nil {
		return errors.Join(err, s.close())
	}
	w.session, w.groups = s, n
	return nil
}

// discard closes a connection that may be broken; the next group opens another.
func (w *writer) discard() {
	if w.session == nil {
		return
	}
	if err := w.session.close(); err != nil {
		w.store.log.Warn("closing the writer's connection", "error", err)
	}
	w.session = nil
}

// counter reads the group counter.
func (s *session) counter() (n int64, err error) {
	if err := s.one(noDeadline, `SELECT n FROM store_meta WHERE name = 'groups'`, &n); err != nil {
		return 0, fmt.Errorf("read the group counter: %w", err)
	}
	return n, nil
}

// settle finds out whether a group whose COMMIT answered with an error is kept: nil if it is.
//
// It asks the same connection. SQLite shows a commit only once it is synced, so a counter that moved there is durable.
// If the counter did not move, a complete commit may still be in the WAL, behind an fsync that failed. The next program
// that opens the database after a crash would recover it. So a commit of only a marker overwrites it before any caller
// gets "not kept".
//
// Closing the connection instead would be wrong: if no other one is open, the next one recovers the WAL, and the commit
// that was not synced appears.
func (w *writer) settle(cause error) error {
	kept, err := w.outcome()
	if err != nil {
		return w.settleAnew(cause, err)
	}
	if kept {
		w.store.log.Warn("a commit answered with an error and is kept", "error", cause)
		w.groups++
		return nil
	}
	if err := w.overwrite(); err != nil {
		return fmt.Errorf("commit: %w; not kept, and nothing else is either: %w", cause, err)
	}
	return fmt.Errorf("commit: %w", cause)
}

// settleAnew does settle's work on a new connection, if the old one no longer answers. The new one may show a commit
// that was recovered, not synced. So the counter counts only after a further commit succeeded.
func (w *writer) settleAnew(cause, why error) error {
	before := w.groups
	w.discard()
	err := w.open()
	if err == nil {
		err = w.overwrite()
	}
	if err != nil {
		w.discard()
		return fmt.Errorf("commit: %w; %w: %w: %w", cause, errOutcome, why, err)
	}
	if w.groups != before {
		w.store.log.Warn("a commit answered with an error and is kept", "error", cause)
		return nil
	}
	return fmt.Errorf("commit: %w", cause)
}

// outcome reads on the writer's own connection whether the group is kept.
func (w *writer) outcome() (kept bool, err error) {
	if w.session.tx {
		if err := w.session.rollback(); err != nil {
			return false, err
		}
	}
	if w.session.conn.inTransaction() {
		return false, errors.New("the transaction of the group is still open, so its counter proves nothing")
	}
	n, err := w.session.counter()
	return n != w.groups, err
}

// overwrite commits a marker. It is not the group counter: recovery must not
// take it for the group.
func (w *writer) overwrite() error {
	if err := w.session.begin(); err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	err := w.session.control(`UPDATE store_meta SET n = n + 1 WHERE name = 'settled'`)
	if err != nil {
		return errors.Join(err, w.session.rollback())
	}
	return w.store.testCommit(w.session.commit)
}
