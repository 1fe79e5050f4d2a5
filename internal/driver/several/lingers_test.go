package several

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/op"
)

// What a back end says of the incarnation of a look is not lost because another one
// has the name, or is where new guests go.
func TestWhatLingersInAnotherBackEnd(t *testing.T) {
	still := answer{o: op.Observed{Lingers: "the guest 500 is still there"}}
	require.Equal(t, still.o.Lingers, lingering(op.Observed{}, []answer{{}, still}).Lingers)
	require.Equal(t, "own", lingering(op.Observed{Lingers: "own"}, []answer{{}, still}).Lingers)
	require.Empty(t, lingering(op.Observed{}, []answer{{}, {err: op.Unavailable, o: still.o}}).Lingers)
}
