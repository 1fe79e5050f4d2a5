package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"gated/internal/base/crashpoint"
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

// preInfix is between a database's name and the number of the migration that a snapshot is from before. tempExt ends
// the name of an unfinished snapshot; SQLite may put files of its own behind that.
const (
	preInfix = ".pre-"
	tempExt  = ".tmp"
)

// Before is a snapshot from before migrations.
type Before struct {
	Path    string
	Version int // of the first migration that is not in it: its schema plus one
}

// Snapshots lists the snapshots from before migrations of the database at path, oldest schema first. It does not read
// them.
func Snapshots(path string) ([]Before, error) {
	names, err := beside(path, preInfix)
	if err != nil {
		return nil, err
	}
	var all []Before
	for _, name := range names {
		v, err := strconv.Atoi(strings.TrimPrefix(name, filepath.Base(path)+preInfix))
		if err == nil && v > 0 && name == filepath.Base(preName(path, v)) {
			all = append(all, Before{filepath.Join(filepath.Dir(path), name), v})
		}
	}
	slices.SortFunc(all, func(a, b Before) int { return a.Version - b.Version })
	return all, nil
}

func preName(path string, version int) string { return path + preInfix + strconv.Itoa(version) }

// snapshotBefore writes <database>.pre-<version>, and replaces an older one of that name. Then it deletes snapshots
// beyond keepSnapshots, those from before the oldest migrations first. It never deletes the one it just made, which has
// a low number if the database went back a version.
func snapshotBefore(ctx context.Context, path string, version int) error {
	if err := dropUnfinished(path); err != nil {
		return err
	}
	name := preName(path, version)
	if err := snapshot(ctx, path, name+tempExt); err != nil {
		return err
	}
	crashpoint.Here(crashpoint.MigrateCopied)
	if err := os.Rename(name+tempExt, name); err != nil {
		return err
	}
	crashpoint.Here(crashpoint.MigrateNamed)
	if err := syncDir(name); err != nil {
		return err
	}
	return pruneSnapshots(path, version)
}

// dropUnfinished removes unfinished snapshots of a program that was killed.
func dropUnfinished(path string) error {
	names, err := beside(path, preInfix)
	if err != nil {
		return err
	}
	for _, name := range names {
		number, rest, unfinished := strings.Cut(strings.TrimPrefix(name, filepath.Base(path)+preInfix), tempExt)
		if _, err := strconv.Atoi(number); err != nil || !unfinished || rest != "" && rest[0] != '-' {
			continue // not a snapshot of this package
		}
		if err := os.Remove(filepath.Join(filepath.Dir(path), name)); err != nil {
			return fmt.Errorf("take away a snapshot that was not finished: %w", err)
		}
	}
	return nil
}

// pruneSnapshots deletes all but the newest keepSnapshots, and never made.
func pruneSnapshots(path string, made int) error {
	all, err := Snapshots(path)
	if err != nil {
		return err
	}
	others := slices.DeleteFunc(all, func(b Before) bool { return b.Version == made })
	for _, b := range others[:max(0, len(others)+1-keepSnapshots)] {
		if err := os.Remove(b.Path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}

// beside lists the names in the database's directory that begin with its own
// and an infix.
func beside(path, infix string) ([]string, error) {
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), filepath.Base(path)+infix) {
			names = append(names, e.Name())
		}
	}
	return names, nil
}
