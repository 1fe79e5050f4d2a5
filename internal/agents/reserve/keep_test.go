package reserve

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
)

// What outlives a process is decided by its holder: nobody leaves another with a
// reservation that does, not even by a signature.
func TestATransferIsBoundToTheReceiver(t *testing.T) {
	for name, give := range map[string]func(*world, op.Requester, Reservation) (Reservation, error){
		"transfer": func(w *world, by op.Requester, r Reservation) (Reservation, error) {
			return w.Transfer(w.t.Context(), by, r.ID, "b")
		},
		"force-transfer": func(w *world, _ op.Requester, r Reservation) (Reservation, error) {
			return w.ForceTransfer(w.t.Context(), step, "s1", r.Handover(w.heir("b")), r.ID, "b")
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			a, b := w.register("a", 1), w.register("b", 2)
			c := lasting(a, "x")
			c.Keep = true
			g := w.reserve(c)
			require.True(t, g.Keep)
			r, err := give(w, a, g.Reservation)
			require.NoError(t, err)
			require.False(t, r.Keep)
			require.Equal(t, g.ExpiresAt, r.ExpiresAt)
			require.Equal(t, []Reservation{r}, w.all())
			w.ends(b)
			require.Empty(t, w.all())
			w.sound()
		})
	}
}
