package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// pres lists the numbers of the snapshots beside a database, of which each has
// the schema that its number says, is for its owner alone, and is a database.
func pres(t *testing.T, path string) []int {
	t.Helper()
	all, err := Snapshots(path)
	require.NoError(t, err)
	out := []int{}
	for _, b := range all {
		require.Equal(t, fmt.Sprintf("%s.pre-%d", path, b.Version), b.Path)
		require.Equal(t, b.Version-1, version(t, b.Path))
		info, err := os.Stat(b.Path)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode())
		out = append(out, b.Version)
	}
	return out
}

// grow brings a database to a schema, as a start of a program with that does.
func grow(t *testing.T, path string, schema int) {
	t.Helper()
	require.NoError(t, open(t, path, Options{Migrations: grown(schema)}).Close())
	require.Equal(t, schema, version(t, path))
}

// TestOneSnapshotForEachStart: what is between two migrations of one start no
// program has ever worked with, and what was there before the first is what the
// program of then can use.
func TestOneSnapshotForEachStart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "gated.db")
	s := open(t, path, Options{Migrations: grown(2)})
	require.NoError(t, s.Update(t.Context(), put("a")))
	require.NoError(t, s.Close())
	require.Empty(t, pres(t, path), "a database that is just being made holds nothing")
	grow(t, path, 2)
	require.Empty(t, pres(t, path), "nothing is migrated")

	grow(t, path, 9)
	require.Equal(t, []int{3}, pres(t, path))
	old := open(t, path+".pre-3", Options{Migrations: grown(2)})
	require.True(t, keys(t, old)["a"], "a snapshot is a database to go back to")
	require.True(t, keys(t, open(t, path, Options{Migrations: grown(9)}))["a"])
}

func TestSnapshotsBelowAtAndAboveTheBound(t *testing.T) {
	path := filepath.Join(t.TempDir(), "gated.db")
	grow(t, path, 1)
	for _, c := range []struct {
		schema int
		left   []int
	}{{2, []int{2}}, {3, []int{2, 3}}, {4, []int{2, 3, 4}}, {5, []int{3, 4, 5}}, {12, []int{4, 5, 6}}} {
		grow(t, path, c.schema)
		require.Equal(t, c.left, pres(t, path), "after the start with schema %d", c.schema)
	}
}

// TestASnapshotIsNotPrunedByWhatIsNewer: a database that went back some versions
// makes one with a low number beside those of higher ones.
func TestASnapshotIsNotPrunedByWhatIsNewer(t *testing.T) {
	path := filepath.Join(t.TempDir(), "gated.db")
	grow(t, path, 3)
	first, err := os.ReadFile(path)
	require.NoError(t, err)
	for schema := 4; schema <= 6; schema++ {
		grow(t, path, schema)
	}
	require.Equal(t, []int{4, 5, 6}, pres(t, path))
	require.NoError(t, os.WriteFile(path, first, 0o600)) // went back, and on
	s := open(t, path, Options{Migrations: grown(3)})
	require.NoError(t, s.Update(t.Context(), put("later")))
	require.NoError(t, s.Close())
	grow(t, path, 4)
	require.Equal(t, []int{4, 5, 6}, pres(t, path), "at the bound, it took the place of the one of its name")
	require.True(t, keys(t, open(t, path+".pre-4", Options{Migrations: grown(3)}))["later"])

	require.NoError(t, os.Remove(path+".pre-4"))
	grow(t, path, 9)
	require.Equal(t, []int{5, 6}, pres(t, path))
	require.NoError(t, os.WriteFile(path, first, 0o600))
	grow(t, path, 9)
	require.Equal(t, []int{4, 5, 6}, pres(t, path))
	require.NoError(t, os.Remove(path+".pre-4"))
	require.NoError(t, os.Rename(path+".pre-5", path+".pre-7"), "three others, all with higher numbers")
	require.NoError(t, os.Rename(path+".pre-6", path+".pre-8"))
	require.NoError(t, os.WriteFile(path+".pre-9", nil, 0o600))
	require.NoError(t, os.WriteFile(path, first, 0o600))
	grow(t, path, 9)
	left, err := Snapshots(path)
	require.NoError(t, err)
	require.Equal(t, []Before{{path + ".pre-4", 4}, {path + ".pre-8", 8}, {path + ".pre-9", 9}}, left)
}

// TestWhatAKilledSnapshotLeft goes before the next one is made, SQLite's own
// files among it; what only looks like it stays.
func TestWhatAKilledSnapshotLeft(t *testing.T) {
	path := filepath.Join(t.TempDir(), "gated.db")
	grow(t, path, 1)
	left := []string{".pre-2.tmp", ".pre-2.tmp-journal", ".pre-9.tmp"}
	stay := []string{".pre-2.tmp2", ".pre-.tmp", ".pre-x.tmp", ".pre-02", ".pre-0", ".pre-mine"}
	for _, name := range left {
		require.NoError(t, os.WriteFile(path+name, []byte("half"), 0o600))
	}
	for _, name := range stay {
		require.NoError(t, os.WriteFile(path+name, []byte("mine"), 0o600))
	}
	grow(t, path, 2)
	for _, name := range left {
		require.NoFileExists(t, path+name)
	}
	for _, name := range stay {
		require.FileExists(t, path+name)
	}
	require.Equal(t, []int{2}, pres(t, path))
}

// TestAMigrationThatIsCutOff between two of a start goes on at the next, and
// what was there before the first is still there.
func TestAMigrationThatIsCutOff(t *testing.T) {
	path := filepath.Join(t.TempDir(), "gated.db")
	grow(t, path, 1)
	broken := append(grown(3), Migration{4, "broken", `CREATE NONSENSE`})
	for range 4 {
		_, err := Open(t.Context(), path, Options{Migrations: broken})
		require.ErrorContains(t, err, "migration 4")
		require.Equal(t, 3, version(t, path))
	}
	require.Equal(t, []int{2}, pres(t, path), "what is between takes no place of one to go back to")
	grow(t, path, 4)
	require.Equal(t, []int{2}, pres(t, path))

	// A program worked with it: the next start makes one of its own.
	grow(t, path, 5)
	require.Equal(t, []int{2, 5}, pres(t, path))

	// It was cut off, and then a program that ends there worked with it.
	_, err := Open(t.Context(), path, Options{Migrations: append(grown(7), Migration{8, "broken", `CREATE NONSENSE`})})
	require.ErrorContains(t, err, "migration 8")
	require.Equal(t, []int{2, 5, 6}, pres(t, path))
	grow(t, path, 7)
	grow(t, path, 8)
	require.Equal(t, []int{5, 6, 8}, pres(t, path))

	// It was cut off, and the snapshot of its start is gone.
	_, err = Open(t.Context(), path, Options{Migrations: append(grown(10), Migration{11, "broken", `CREATE NONSENSE`})})
	require.ErrorContains(t, err, "migration 11")
	require.Equal(t, []int{6, 8, 9}, pres(t, path))
	require.NoError(t, os.Remove(path+".pre-9"))
	grow(t, path, 11)
	require.Equal(t, []int{6, 8, 11}, pres(t, path))
}

func TestPeekReadsWhatANewerProgramWrote(t *testing.T) {
	path := filepath.Join(t.TempDir(), "gated.db")
	s := open(t, path, Options{Migrations: grown(5)})
	require.NoError(t, s.Update(t.Context(), put("a")))
	look := func(tx *Tx) (n int, err error) { return n, tx.QueryRow(`SELECT count(*) FROM items`).Scan(&n) }
	for _, open := range []bool{true, false} {
		if !open {
			require.NoError(t, s.Close())
		}
		before, err := os.ReadFile(path)
		require.NoError(t, err)
		require.NoError(t, Peek(t.Context(), path, func(schema int, tx *Tx) error {
			require.Equal(t, 5, schema)
			n, err := look(tx)
			require.Equal(t, 1, n)
			require.ErrorIs(t, put("b")(tx), ErrReadOnly)
			return err
		}))
		after, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, before, after)
	}
	mine := errors.New("mine")
	require.ErrorIs(t, Peek(t.Context(), path, func(int, *Tx) error { return mine }), mine)
	text := filepath.Join(t.TempDir(), "text")
	require.NoError(t, os.WriteFile(text, make([]byte, 8192), 0o600))
	require.ErrorIs(t, Peek(t.Context(), text, func(int, *Tx) error { return nil }), ErrCorrupt)
	require.Error(t, Peek(t.Context(), path+".none", func(int, *Tx) error { return nil }))
	require.NoFileExists(t, path+".none")
}
