package store

import (
	"path/filepath"
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
