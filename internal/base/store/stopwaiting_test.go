package store

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// StopWaiting frees the callers of a group in doubt, and of later ones. They hear that the outcome is not known, and the
// group is in the database after the next Open, because the Keeper has it.
func TestStopWaitingFreesTheCallersOfAGroupInDoubt(t *testing.T) {
	k := &shelf{asked: make(chan struct{}, 1)}
	s := openOn(t, filepath.Join(t.TempDir(), "a.db"), k, nil)
	k.answer = func(keep func()) error { keep(); return ErrKeepInDoubt }
	insert := does(`INSERT INTO counted(v) VALUES ('x')`)
	heard := make(chan error, 1)
	go func() { heard <- s.Update(t.Context(), insert) }()
	<-k.asked
	s.StopWaiting()
	s.StopWaiting()
	err := <-heard
	require.ErrorIs(t, err, ErrUnavailable)
	require.ErrorIs(t, err, ErrKeepInDoubt)
	require.ErrorIs(t, s.Update(t.Context(), insert), errParted)
	require.NoError(t, s.Close())
	k.answer, k.asked = nil, nil
	s = openOn(t, s.Path(), k, nil)
	require.Equal(t, 1, count(t, s))
}
