package gate_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/gate"
)

// If it is not known whether a decision is kept, its caller does not hear that nothing was decided.
func TestADecisionInDoubtIsNotDenied(t *testing.T) {
	w := newWorld(t)
	for err, says := range map[error]string{
		fmt.Errorf("%w: disk full", store.ErrUnavailable):                "so nothing was decided",
		fmt.Errorf("%w: %w", store.ErrUnavailable, store.ErrKeepInDoubt): "cannot say now whether this was decided",
	} {
		refused := refusal.As(w.gate.Machine(err))
		require.ErrorIs(t, refused, refusal.Unavailable)
		require.Contains(t, refused.Detail, says)
		require.Equal(t, store.InDoubt(err), refused.Hint == gate.HintInDoubt)
	}
}
