package store

import (
	"context"
	"errors"
	"fmt"
)

// maxReaders bounds the connections for reading; each has a page cache, and is
// opened at its first use. It is more than the lists that the server lets
// through at once, so that decisions always find one.
const maxReaders = 12

// View runs fn on one snapshot of what is committed. It sees every Update that
// returned before it, and none that commits while it runs. ctx bounds the wait
// for a free connection and is looked at before each statement. A View that
// lasts long keeps the WAL from being reset: collect, return, then work.
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
	tx := &Tx{s: r, ctx: ctx}
	defer func() {
		tx.end()
		failed := r.conn.failed
		healthy = r.endRead() == nil && failed == nil
	}()
	return fn(tx)
}

// takeReader waits for a connection, opening it at its first use.
func (s *Store) takeReader(ctx context.Context) (*session, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, unavailable(err)
	}
	select {
	case <-s.closed:
		return nil, unavailable(errClosed)
	default:
	}
	var r *session
	select {
	case r = <-s.readers:
	case <-ctx.Done():
		return nil, unavailable(context.Cause(ctx))
	case <-s.closed:
		return nil, unavailable(errClosed)
	}
	if r != nil {
		return r, nil
	}
	r, err := openSession(noDeadline, s.path, readOnly)
	if err != nil {
		s.readers <- nil
		return nil, unavailable(fmt.Errorf("open a reader: %w", err))
	}
	return r, nil
}

// giveReader returns a connection, or only its place if it failed.
func (s *Store) giveReader(r *session, healthy bool) {
	if !healthy {
		_ = r.close() // it failed already, and that was reported
		r = nil
	}
	s.readers <- r
}

// closeReaders waits for running Views and closes their connections.
func (s *Store) closeReaders() error {
	var errs []error
	for range maxReaders {
		if r := <-s.readers; r != nil {
			errs = append(errs, r.close())
		}
	}
	return errors.Join(errs...)
}
