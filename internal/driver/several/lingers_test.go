package several

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// A back end may report what is left of a look's incarnation. The report stays if another back
// end has the name or makes new guests.
func TestWhatLingersInAnotherBackEnd(t *testing.T) {
	still := answer{o: op.Observed{Lingers: "the guest 500 is still there"}}
	require.Equal(t, still.o.Lingers, lingering(op.Observed{}, []answer{{}, still}).Lingers)
	require.Equal(t, "own", lingering(op.Observed{Lingers: "own"}, []answer{{}, still}).Lingers)
	require.Empty(t, lingering(op.Observed{}, []answer{{}, {err: refusal.Unavailable, o: still.o}}).Lingers)
}
