package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
)

// Options are what Open needs to know.
type Options struct {
	// Migrations are the schema, numbered from 1 without gaps.
	Migrations []Migration

	// Logger gets failures that no caller gets, and migrations; nil for none.
	Logger *slog.Logger

	// Keeper, if set, keeps each group's row changes elsewhere before they are committed here (docs/design/ledger.md).
	Keeper Keeper

	// Follows says that the Keeper only reads: the database gets the groups of another daemon (Store.Follow), and a schema
	// no newer than theirs. What would change a row that travels gets the error of the Keeper's Seal.
	Follows bool

	// Leaves opens a database that has met a Keeper without one, for Tx.Leave.
	Leaves bool

	// Local names the tables whose rows a Keeper does not get, because they describe this machine.
	Local []string

	// Rehearse has each group run once for nothing before it counts, so that tests find functions that may not run
	// twice. It is for tests.
	Rehearse bool

	// commit, if set, wraps every COMMIT; tests make it fail.
	commit func(commit func() error) error
}

// Store is an open database.
type Store struct {
	path   string
	file   fs.FileInfo // of the database, as it was opened; nil for Peek
	log    *slog.Logger
	hooks  hooks
	idle   chan *session // open connections without a reader
	unused chan struct{} // one for each connection that may still be opened
	writer *writer       // nil if opened read-only
	closed chan struct{}

	hurried    chan struct{} // closed when no group waits for the Keeper any longer
	keeper     Keeper        // or nil
	local      []string
	migrations []Migration
	leaves     bool
	schema     int // with a Keeper: the version of the schema
	rehearse   bool

	waitOnce   sync.Once
	closeOnce  sync.Once
	closeErr   error
	testCommit func(commit func() error) error
}

// Open opens the database at path for the one process that writes it. It creates a missing file with mode 0600; the
// directory must exist. It runs missing migrations after a snapshot. Errors: *TooNewError, ErrCorrupt, or those of the
// file system or SQLite.
func Open(ctx context.Context, path string, o Options) (*Store, error) {
	s, err := newStore(path, o)
	if err != nil {
		return nil, err
	}
	if err := checkOrder(o.Migrations); err != nil {
		return nil, err
	}
	if err := ensureFile(s.path); err != nil {
		return nil, err
	}
	// This comes before any change, on a connection that cannot write, except to undo a change that was cut off.
	if err := mendVersion(ctx, s.path, o.Migrations); err != nil {
		return nil, err
	}
	if o.Keeper != nil {
		if err := s.catchUp(ctx); err != nil {
			return nil, err
		}
	}
	if !o.Follows {
		if err := s.prepare(ctx, o.Migrations); err != nil {
			return nil, err
		}
	}
	if s.file, err = os.Stat(s.path); err != nil {
		return nil, err
	}
	w := &writer{store: s, queue: make(chan *call, maxQueue), closing: make(chan struct{}), stopped: make(chan struct{})}
	if err := w.open(); err != nil {
		return nil, err
	}
	if o.Keeper != nil && !o.Follows {
		w.stop = ctx.Done()
		if err := w.base(); err != nil {
			w.discard()
			return nil, err
		}
	}
	s.writer, w.stop = w, s.hurried
	go w.run()
	return s, nil
}

// OpenReadOnly opens the database to read it, with or without a running daemon. It creates and migrates nothing, and
// Update returns ErrReadOnly. Errors are those of Open.
func OpenReadOnly(ctx context.Context, path string, o Options) (*Store, error) {
	s, err := newStore(path, o)
	if err != nil {
		return nil, err
	}
	if err := checkOrder(o.Migrations); err != nil {
		return nil, err
	}
	if err := checkVersion(ctx, s.path, o.Migrations); err != nil {
		return nil, err
	}
	if s.file, err = os.Stat(s.path); err != nil {
		return nil, err
	}
	if blank(s.file) {
		return nil, fmt.Errorf("the file is empty: %w", ErrCorrupt) // it lost what was in it
	}
	return s, nil
}

func newStore(path string, o Options) (*Store, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("the database's path: %w", err)
	}
	s := &Store{path: abs, log: o.Logger, idle: make(chan *session, maxReaders), unused: make(chan struct{}, maxReaders), closed: make(chan struct{}), hurried: make(chan struct{}),
		keeper: o.Keeper, local: o.Local, migrations: o.Migrations, leaves: o.Leaves, schema: len(o.Migrations), rehearse: o.Rehearse, testCommit: o.commit}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.testCommit == nil {
		s.testCommit = func(commit func() error) error { return commit() }
	}
	for range maxReaders {
		s.unused <- struct{}{}
	}
	return s, nil
}

// InPlace returns an error if the file that is open is not at the store's path any more. What is written then is in a
// file that no name leads to.
func (s *Store) InPlace() error {
	info, err := os.Stat(s.path)
	if err == nil && !os.SameFile(info, s.file) {
		err = fmt.Errorf("%s is another file than the one that is open", s.path)
	}
	return err
}

// Path returns the absolute path of the database.
func (s *Store) Path() string { return s.path }

// StopWaiting has no group wait for the Keeper any longer. A group that is in doubt then stays so, and its callers hear that. No group
// runs after it, until the next Open. Groups that the Keeper answers are written as before.
func (s *Store) StopWaiting() { s.waitOnce.Do(func() { close(s.hurried) }) }

// Close refuses new work, finishes queued work, waits for running Views and closes the database. A second Close returns
// the same error.
func (s *Store) Close() error {
	s.closeOnce.Do(func() {
		close(s.closed)
		s.StopWaiting()
		var errs []error
		if s.writer != nil {
			close(s.writer.closing)
			<-s.writer.stopped
		}
		errs = append(errs, s.closeReaders())
		// The writer's connection is closed last, so that closing it folds the WAL into the database.
		if s.writer != nil && s.writer.session != nil {
			errs = append(errs, s.writer.session.close())
		}
		s.closeErr = errors.Join(errs...)
	})
	return s.closeErr
}
