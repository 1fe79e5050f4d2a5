package store

import (
	"context"
	"errors"
	"fmt"
)

// maxReaders bounds the connections for reading. Each has a page cache, and is opened at its first use. There are more
// than the lists that the server lets through at once, so that decisions always find one.
const maxReaders = 12

// View runs fn on one snapshot of the committed state. It sees every Update that returned before it, and none that
// commits while it runs. ctx bounds the wait for a free connection and is checked before each statement. A long View
// keeps the WAL from being reset: collect, return, then work.
func (s *Store) View(ctx context.Context, fn func(*Tx) error) (err error) {
	r, err := s.takeReader(ctx)
	if err != nil {
		return err
	}
	healthy := false
	defer func() { s.giveReader(r, healthy) }()
	if err := r.beginRead(); err != nil {
		return unavailable(err)
	}
	tx := &Tx{s: r, ctx: ctx, fails: s.fails}
	defer func() {
		tx.end()
		failed := r.conn.failed
		healthy = r.endRead() == nil && failed == nil
	}()
	return fn(tx)
}

// takeReader waits for a connection. It takes an open one before it opens another, because each new one prepares every
// statement again.
func (s *Store) takeReader(ctx context.Context) (*session, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, unavailable(err)
	}
	select {
	case <-s.closed:
		return nil, unavailable(errClosed)
	default:
	}
	select {
	case r := <-s.idle:
		return r, nil
	default:
	}
	select {
	case r := <-s.idle:
		return r, nil
	case <-s.unused:
	case <-ctx.Done():
		return nil, unavailable(context.Cause(ctx))
	case <-s.closed:
		return nil, unavailable(errClosed)
	}
	r, err := s.openReader()
	if err != nil {
		s.unused <- struct{}{}
		return nil, unavailable(fmt.Errorf("open a reader: %w", err))
	}
	return r, nil
}

// openReader opens a connection. If another file is in the place of the database, a connection to it would answer for
// this one from then on.
func (s *Store) openReader() (*session, error) {
	r, err := openSession(noDeadline, s.path, readOnly)
	if err != nil || s.file == nil {
		return r, err
	}
	if err := s.InPlace(); err != nil {
		return nil, errors.Join(err, r.close())
	}
	return r, nil
}

// giveReader returns a connection, or only its place if it failed.
func (s *Store) giveReader(r *session, healthy bool) {
	if !healthy {
		_ = r.close() // it failed already, and that was reported
		s.unused <- struct{}{}
		return
	}
	s.idle <- r
}

// closeReaders waits for running Views and closes their connections.
func (s *Store) closeReaders() error {
	var errs []error
	for range maxReaders {
		select {
		case r := <-s.idle:
			errs = append(errs, r.close())
		case <-s.unused:
		}
	}
	return errors.Join(errs...)
}

// Peek runs fn on one snapshot of a gate's database of any schema, even a newer program's. fn gets the schema. The
// tables may differ from this program's, so fn returns an error for what it cannot read. Peek creates and changes
// nothing. A file that is damaged, or not a gate's, is ErrCorrupt.
func Peek(ctx context.Context, path string, fn func(schema int, tx *Tx) error) error {
	s, err := newStore(path, Options{})
	if err != nil {
		return err
	}
	schema, err := readVersion(ctx, s.path)
	if err != nil {
		return err
	}
	err = s.View(ctx, func(tx *Tx) error { return fn(schema, tx) })
	return errors.Join(err, s.Close())
}
