package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/test/must"
)

func TestModesWhateverTheUmask(t *testing.T) {
	for _, mask := range []int{0, 0o022, 0o777} {
		t.Run(fmt.Sprintf("%03o", mask), func(t *testing.T) {
			dir := t.TempDir()
			old := syscall.Umask(mask)
			defer syscall.Umask(old)
			s := open(t, filepath.Join(dir, "gated.db"), Options{})
			require.NoError(t, s.Update(t.Context(), put("a")))
			require.NoError(t, s.Snapshot(t.Context(), filepath.Join(dir, "copy.db")))
			entries, err := os.ReadDir(dir)
			require.NoError(t, err)
			require.Len(t, entries, 4) // database, WAL, index, copy
			for _, e := range entries {
				info, err := e.Info()
				require.NoError(t, err)
				require.Equal(t, os.FileMode(0o600), info.Mode(), e.Name())
			}
		})
	}
}

func TestPathsThatLookLikeURIs(t *testing.T) {
	for _, name := range []string{"a?mode=memory", "b%41", "c#d", "e f", "g&h=i", "j;k", "l\nm", "n%", "o'p", "q\xffr"} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), name)
			require.NoError(t, os.Mkdir(dir, 0o700))
			path := filepath.Join(dir, name)
			s := open(t, path, Options{})
			require.NoError(t, s.Update(t.Context(), put("a")))
			require.True(t, keys(t, s)["a"])
			require.NoError(t, s.Snapshot(t.Context(), path+".copy"))
			entries, err := os.ReadDir(dir)
			require.NoError(t, err)
			var got []string
			for _, e := range entries {
				got = append(got, e.Name())
			}
			require.ElementsMatch(t, []string{name, name + "-wal", name + "-shm", name + ".copy"}, got)
			require.True(t, keys(t, open(t, path+".copy", Options{}))["a"])
		})
	}
}

// SQLite deletes the log of a file without a byte at the first look, and the newest entries with it. Whoever opens such a
// file, or none, hears that it is damaged, and every byte stays.
func TestALogOutlivesItsDatabase(t *testing.T) {
	src := filepath.Join(t.TempDir(), "gated.db")
	s := open(t, src, Options{})
	require.NoError(t, s.Update(t.Context(), put("a")))
	log := must.Get(os.ReadFile(src + "-wal"))(t)
	require.NotEmpty(t, log)
	for name, look := range map[string]func(path string) error{
		"Open":         func(path string) error { return errOf(Open(t.Context(), path, Options{Migrations: schema})) },
		"OpenReadOnly": func(path string) error { return errOf(OpenReadOnly(t.Context(), path, Options{Migrations: schema})) },
		"Peek":         func(path string) error { return Peek(t.Context(), path, func(int, *Tx) error { return nil }) },
		"verify":       func(path string) error { return verify(t.Context(), path) },
	} {
		for _, main := range [][]byte{{}, {0}, nil} {
			path := filepath.Join(t.TempDir(), "gated.db")
			require.NoError(t, os.WriteFile(path+"-wal", log, 0o600))
			if main != nil {
				require.NoError(t, os.WriteFile(path, main, 0o600))
			}
			require.ErrorIs(t, look(path), ErrCorrupt, name)
			require.Equal(t, log, must.Get(os.ReadFile(path+"-wal"))(t), name)
			_, err := os.Lstat(path)
			require.Equal(t, main == nil, errors.Is(err, fs.ErrNotExist), "%s makes no database beside a log", name)
		}
	}
	path := filepath.Join(t.TempDir(), "gated.db")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	require.NoError(t, os.WriteFile(path+"-wal", nil, 0o600))
	require.NoError(t, open(t, path, Options{}).Update(t.Context(), put("b")), "a log without a byte has no entries")
}

func errOf(_ *Store, err error) error { return err }
