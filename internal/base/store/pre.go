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
