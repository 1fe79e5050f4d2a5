package store

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
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
