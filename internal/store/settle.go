package store

import (
	"context"
	"errors"
	"fmt"
)

// noDeadline is the writer's context: functions never see a caller's, since a
// cancelled statement ends the transaction of the whole group.
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
	if err != nil {
		return errors.Join(err, s.close())
	}
	w.session, w.groups = s, n
	return nil
}

// discard closes a connection that cannot be trusted any more; the next group
// opens another.
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
	err = s.internal(func() error {
		return s.sql.QueryRowContext(noDeadline, `SELECT n FROM store_meta WHERE name = 'groups'`).Scan(&n)
	})
	if err != nil {
		return 0, fmt.Errorf("read the group counter: %w", err)
	}
	return n, nil
}

// settle finds out, on a new connection, whether a group whose COMMIT answered
// with an error is kept: nil if it is. What WAL readers see has been synced, so
// that a counter that moved is durable. One that did not move may still have
// left a complete commit frame behind an fsync that failed, which recovery
// after a crash would take for a commit; so a further commit overwrites it
// before anyone is told "not kept".
func (w *writer) settle(cause error) error {
	before := w.groups
	w.discard()
	if err := w.open(); err != nil {
		return fmt.Errorf("commit: %w; its outcome cannot be read yet: %w", cause, err)
	}
	if w.groups != before {
		w.store.log.Warn("a commit answered with an error and is kept", "error", cause)
		return nil
	}
	if err := w.overwrite(); err != nil {
		w.discard()
		return fmt.Errorf("commit: %w; not kept, and the disk takes no writes: %w", cause, err)
	}
	return fmt.Errorf("commit: %w", cause)
}

// overwrite commits a group of nothing but the counter.
func (w *writer) overwrite() error {
	if err := w.session.begin(); err != nil {
		return err
	}
	if err := w.session.bump(w.groups); err != nil {
		return errors.Join(err, w.session.rollback())
	}
	if err := w.store.testCommit(w.session.commit); err != nil {
		return err
	}
	w.groups++
	return nil
}
