package store

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAStatementThatWasToFail: such a failure is one of the machine, even if the function swallows it, and the store works
// again after it.
func TestAStatementThatWasToFail(t *testing.T) {
	left, wanted := 0, errors.New("as asked")
	s := open(t, filepath.Join(t.TempDir(), "gated.db"), Options{Fails: func() error {
		if left--; left == 0 {
			return wanted
		}
		return nil
	}})
	add := func(tx *Tx) error {
		_, err := tx.Exec(insertItem, "kept with its group", nil)
		require.NoError(t, err)
		_, err = tx.Exec(insertItem, "swallowed", nil)
		require.ErrorIs(t, err, wanted)
		return nil
	}
	left = 2
	err := s.Update(t.Context(), add)
	require.ErrorIs(t, err, ErrUnavailable)
	require.ErrorIs(t, err, wanted)
	require.Empty(t, keys(t, s))

	left = 1
	require.ErrorIs(t, s.View(t.Context(), func(tx *Tx) error {
		return tx.QueryRow(`SELECT count(*) FROM items`).Scan(new(int))
	}), ErrUnavailable)
	require.NoError(t, s.Update(t.Context(), func(tx *Tx) error {
		_, err := tx.Exec(insertItem, "a", nil)
		return err
	}))
	require.Equal(t, map[string]bool{"a": true}, keys(t, s))
}
