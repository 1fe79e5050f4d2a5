package fsck_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/store"
	"gated/internal/host/fsck"
)

// A program that does not know agents and reservations must not call a database with them sound.
func TestAgentsThatNobodyKnows(t *testing.T) {
	w := newWorld(t)
	defer fsck.Forget()()
	require.NoError(t, w.store.View(t.Context(), func(tx *store.Tx) error {
		_, err := fsck.Run(tx)
		require.ErrorContains(t, err, "fsck/book")
		return nil
	}))
}
