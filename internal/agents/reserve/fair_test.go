package reserve

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/refusal"
)

// Who always has one of two files cannot keep a claim to both waiting for ever:
// it goes first only for the sake of what it had when the claim came.
func TestAWaitIsNotStarvedByTurns(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a, b := w.register("a", 1), w.register("b", 1)
		first := w.reserve(lasting(a, "src/a"))
		out := w.asks(t.Context(), waiting(b, "src/a", "src/b"))
		second := w.reserve(lasting(a, "src/b")) // b waits for what a has: they would wait for each other
		_, err := w.Release(t.Context(), a, first.ID)
		require.NoError(t, err)
		has(t, false, out)
		w.refused(lasting(a, "src/a"), refusal.Conflict)
		again := w.asks(t.Context(), waiting(a, "src/a"))
		has(t, false, again)
		require.True(t, w.reserve(lasting(a, "src/b")).Renewed, "what it has it may ask for again")
		_, err = w.Release(t.Context(), a, second.ID)
		require.NoError(t, err)
		g := has(t, true, out)
		has(t, false, again)
		_, err = w.Release(t.Context(), b, g.ID)
		require.NoError(t, err)
		has(t, true, again)
		w.sound()
	})
}

// Nothing that somebody was given after a claim came lets it go first either.
func TestAWaitIsNotStarvedBetweenTwo(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a, b, c := w.register("a", 1), w.register("b", 1), w.register("c", 1)
		first := w.reserve(lasting(a, "src/a"))
		out := w.asks(t.Context(), waiting(b, "src/a", "src/b", "src/c"))
		second := w.reserve(lasting(a, "src/b"))
		_, err := w.Transfer(t.Context(), a, second.ID, "c")
		require.NoError(t, err)
		w.refused(lasting(c, "src/c"), refusal.Conflict)
		_, err = w.Release(t.Context(), a, first.ID)
		require.NoError(t, err)
		w.refused(lasting(a, "src/a"), refusal.Conflict)
		_, err = w.Release(t.Context(), c, second.ID)
		require.NoError(t, err)
		has(t, true, out)
	})
}

// Nor does who shares something jump the queue to have it alone.
func TestAStrongerModeWaitsItsTurn(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a, b, c := w.register("a", 1), w.register("b", 1), w.register("c", 1)
		held := w.reserve(lasting(c, "x"))
		sharing := waiting(b, "x", "y")
		sharing.Mode = Shared
		out := w.asks(t.Context(), sharing)
		weak := lasting(a, "y")
		weak.Mode = Shared
		w.reserve(weak) // both are shared
		require.True(t, w.reserve(weak).Renewed)
		w.refused(lasting(a, "y"), refusal.Conflict) // b would have to wait for a too
		_, err := w.Release(t.Context(), c, held.ID)
		require.NoError(t, err)
		has(t, true, out)
		w.sound()
	})
}
