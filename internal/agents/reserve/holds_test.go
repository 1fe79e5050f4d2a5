package reserve

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/store"
)

func TestHolds(t *testing.T) {
	w := newWorld(t)
	a := w.register("a", 1)
	holds := func(name string, uid uint32) (id op.ReservationID) {
		require.NoError(t, w.cfg.Store.View(t.Context(), func(tx *store.Tx) (err error) {
			id, err = w.Holds(tx, Holder{Name: name, UID: uid})
			return err
		}))
		return id
	}
	require.Zero(t, holds("a", 1))
	short, kept := claim(a, "x"), claim(a, "y")
	short.TTL, kept.Keep = MinTTL, true
	first, second := w.reserve(short), w.reserve(kept)
	require.Equal(t, first.ID, holds("a", 1))
	require.Zero(t, holds("a", 2))
	require.Zero(t, holds("b", 1))
	w.pass(MinTTL)
	require.Equal(t, second.ID, holds("a", 1), "what lapsed counts for nothing, whether or not its row is there")
	w.ends(a)
	require.Equal(t, second.ID, holds("a", 1), "it was kept")
	w.pass(DefaultTTL)
	require.Zero(t, holds("a", 1))
}
