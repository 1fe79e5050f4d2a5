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

// vet refuses a statement that would end, begin or nest a transaction without the store, and more than one statement.
// The commit hook would stop the worst of it, but vet shows the mistake at its place.
func vet(query string) error {
	statements := 0
	first := true
	for word := range words(query) {
		if word == ";" {
			first = true
			continue
		}
		if first {
			statements++
			first = false
			switch word {
			case "BEGIN", "COMMIT", "END", "SAVEPOINT", "RELEASE", "ATTACH", "DETACH", "PRAGMA", "VACUUM":
				return fmt.Errorf("store: %s is not for transaction functions", word)
			}
		}
		if err := vetWord(word); err != nil {
			return err
		}
	}
	if statements != 1 {
		return fmt.Errorf("store: want one statement, got %d", statements)
	}
	return nil
}

// vetWord refuses words that no SQL may have, migrations included. A ROLLBACK conflict clause ends the group of every
// caller. A deferred constraint fails at the COMMIT, where the faulty call is unknown.
func vetWord(word string) error {
	if word == "ROLLBACK" || word == "DEFERRABLE" {
		return fmt.Errorf("store: %s is not allowed in SQL", word)
	}
	return nil
}

// words yields the bare words of SQL in upper case, and ";" for each semicolon. It skips quoted text and comments.
func words(sql string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for i := 0; i < len(sql); {
			n := skip(sql[i:])
			if n > 0 {
				i += n
				continue
			}
			n = wordLen(sql[i:])
			switch {
			case n > 0:
				if !yield(strings.ToUpper(sql[i : i+n])) {
					return
				}
				i += n
			case sql[i] == ';':
				if !yield(";") {
					return
				}
				i++
			default:
				i++
			}
		}
	}
}

// skip returns the length of the comment or quoted text at the start of s, or 0.
func skip(s string) int {
	end := func(from int, closing string) int {
		if i := strings.Index(s[from:], closing); i >= 0 {
			return from + i + len(closing)
		}
		return len(s)
	}
	switch {
	case strings.HasPrefix(s, "--"):
		return end(2, "\n")
	case strings.HasPrefix(s, "/*"):
		return end(2, "*/")
	case s[0] == '\'' || s[0] == '"' || s[0] == '`':
		// A doubled quote inside counts as two texts side by side.
		return end(1, s[:1])
	case s[0] == '[':
		return end(1, "]")
	}
	return 0
}

// wordLen returns the length of the bare word at the start of s, or 0.
func wordLen(s string) int {
	n := 0
	for n < len(s) {
		c := s[n]
		if c == '_' || c >= 0x80 || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' {
			n++
			continue
		}
		break
	}
	return n
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
