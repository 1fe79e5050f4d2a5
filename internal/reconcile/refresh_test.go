package reconcile

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
)

// A request whose target was changed by another step is issued anew at once,
// not a round later: whoever is told to look again has to see something new.
func TestAStepOnATargetHasItsRequestIssuedAnew(t *testing.T) {
	w := newWorld(t)
	w.submit(ask("guest.create", "web", op.Params{}))
	w.work()
	w.submit(ask("guest.destroy", "web", op.Params{}))
	w.work()
	before := w.request()
	w.submit(ask("guest.set-config", "web", op.Params{"memory": int64(512)}))
	w.work()
	after := w.request()
	require.Equal(t, before.ID, after.ID)
	require.NotEqual(t, before.Nonce, after.Nonce)
	w.approve(after)
}
