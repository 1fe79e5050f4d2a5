package store

import (
	"errors"
	"fmt"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// Whether the disk takes anything is told by the last group that had something
// to keep.
func TestWriteError(t *testing.T) {
	f := openFaulty(t, filepath.Join(t.TempDir(), "gated.db"))
	defer func() { require.NoError(t, f.Close()) }()
	require.NoError(t, f.WriteError())
	f.end.Store(endNeverSent)
	require.ErrorIs(t, f.Update(t.Context(), put("a")), ErrUnavailable)
	require.ErrorContains(t, f.WriteError(), "injected")
	require.ErrorIs(t, f.Update(t.Context(), func(*Tx) error { return errMine }), errMine)
	require.Error(t, f.WriteError(), "nothing was written since")
	require.NoError(t, f.Update(t.Context(), put("b")))
	require.NoError(t, f.WriteError())

	read, err := OpenReadOnly(t.Context(), f.path, Options{Migrations: schema})
	require.NoError(t, err)
	require.NoError(t, read.WriteError())
	require.NoError(t, read.Close())
}

// A disk without room is said so once, whatever SQLite and the kernel said on the
// way.
func TestAFullDiskIsSaidOnce(t *testing.T) {
	f := openFaulty(t, filepath.Join(t.TempDir(), "gated.db"))
	defer func() { require.NoError(t, f.Close()) }()
	said := fmt.Errorf("commit: %w; not kept, and nothing else is either: %w", syscall.ENOSPC, errors.New("begin: database or disk is full (13)"))
	err := f.plain(said)
	require.EqualError(t, err, "no space left in "+filepath.Dir(f.path))
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.True(t, DiskFull(err))
	f.writer.report(said)
	require.EqualError(t, f.WriteError(), err.Error())
	require.ErrorIs(t, f.plain(errMine), errMine)
	require.EqualError(t, f.plain(errMine), errMine.Error())
	require.NoError(t, f.plain(nil))
}
