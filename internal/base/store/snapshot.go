package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Snapshot writes a consistent copy of the committed state to path, and checks the copy's integrity. path must not
// exist, or be an empty regular file; it gets mode 0600. Writers continue meanwhile. After an error, Snapshot removes
// what it created.
func (s *Store) Snapshot(ctx context.Context, path string) error {
	abs, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	return snapshot(ctx, s.path, abs)
}

// snapshot copies the database at from; it only needs VACUUM INTO. VACUUM INTO alone would create the copy with the
// umask's mode.
func snapshot(ctx context.Context, from, to string) (err error) {
	if err := emptyFile(to); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(to))
		}
	}()
	src, err := openSession(ctx, from, probe)
	if err != nil {
		return err
	}
	err = src.control("VACUUM INTO ?", to)
	if err = errors.Join(err, src.close()); err != nil {
		return fmt.Errorf("copy the database: %w", err)
	}
	if err := syncFile(to); err != nil {
		return err
	}
	return verify(ctx, to)
}

// emptyFile makes sure that path is an empty file with mode 0600.
func emptyFile(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, os.ErrNotExist) {
		return createFile(path)
	}
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() || info.Size() != 0 {
		return fmt.Errorf("%s exists and is not an empty file", path)
	}
	return os.Chmod(path, 0o600)
}

// verify checks every page, index and constraint of a database.
func verify(ctx context.Context, path string) (err error) {
	s, err := openSession(ctx, path, probe)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	var answer string
	if err := s.one(ctx, "PRAGMA integrity_check(1)", &answer); err != nil {
		return err
	}
	if answer != "ok" {
		return fmt.Errorf("%s: %w: %s", path, ErrCorrupt, answer)
	}
	return nil
}

// Check reads the whole database. It returns ErrCorrupt with the first fault of its pages, indexes or constraints.
func (s *Store) Check(ctx context.Context) error { return verify(ctx, s.path) }

func syncFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// syncDir makes the name of the file at path durable.
func syncDir(path string) error {
	d, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
