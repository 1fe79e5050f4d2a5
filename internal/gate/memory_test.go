package gate_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

// holding is a back end whose guests hold 512 MiB while they run, and that sets a limit at once.
type holding struct{ *backend }

func (h holding) Observe(ctx context.Context, l op.Look) (op.Observed, error) {
	o, err := h.backend.Observe(ctx, l)
	if o.Running == op.Running {
		o.MemoryUsed = 512
	}
	return o, err
}

// TestAGuestThatIsStoppedFirstHoldsNoMemory: a job that stops a guest, gives it less memory and starts it kills nothing.
// It waits if the guest runs at the second step, whoever started it.
func TestAGuestThatIsStoppedFirstHoldsNoMemory(t *testing.T) {
	t.Parallel()
	h := holding{newBackend()}
	w := newWorldOn(t, h)
	w.back = h.backend
	h.put("web")
	w.mustSubmit(ask("guest.start", "web"))
	w.run()
	stop, start, less := ask("guest.stop", "web"), ask("guest.start", "web"), ask("guest.set-config", "web", "memory", int64(64))
	for _, first := range [][]op.Ask{{less}, {start, less}, {stop, start, less}, {ask("guest.stop", "db"), less}} {
		h.put("db")
		j := w.mustSubmit(first...)
		require.Equal(t, op.StatePending, j.Steps[len(first)-1].State)
		must.Get(w.gate.Cancel(w.ctx, hub, j.ID))(t)
	}
	j := w.mustSubmit(stop, less, start)
	w.run()
	require.Equal(t, op.StateSucceeded, w.job(j.ID).State())

	j = w.mustSubmit(stop, less, start)
	require.NoError(t, w.execute(j.Steps[0].ID))
	h.change("web", func(o *op.Observed) { o.Running = op.Running }) // another hand starts it
	p := must.Get(w.gate.Permit(w.ctx, j.Steps[1].ID))(t)
	now := must.Get(h.Observe(w.ctx, p.Step().Look()))(t)
	require.ErrorIs(t, p.Use(w.ctx, now), refusal.PendingSignature)
}
