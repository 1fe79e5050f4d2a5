package matrix_test

import (
	"context"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver/local"
)

// full is a back end whose guests hold 512 MiB, and that sets a limit at once.
type full struct{ *local.Driver }

func (d full) Observe(ctx context.Context, l op.Look) (op.Observed, error) {
	o, err := d.Driver.Observe(ctx, l)
	o.MemoryUsed = 512
	return o, err
}

// starving is a row in which somebody gives a running guest less memory than it holds.
func starving(id, what string, run func(w *world) error) attack {
	return attack{id: id, what: what, want: refusal.PendingSignature, run: func(w *world) error {
		w.do("guest.set-config", "victim", "memory", int64(1024))
		w.back = full{w.driver}
		w.arm()
		err := run(w)
		_ = w.runAll()
		require.EqualValues(w.t, 1024, w.observe("victim").Spec.Int("memory"))
		w.back = nil
		return err
	}}
}

var memoryRows = []attack{
	starving("U26a", "a job gives a guest less memory than it holds", func(w *world) error {
		return w.waits(w.submit(hub, ask("guest.set-config", "victim", "memory", int64(511))))
	}),
	starving("U26b", "desired state wants a guest to have less memory than it holds", func(w *world) error {
		w.apply(map[string]string{"hub": document("  - name: victim\n    memory: 511MiB\n")})
		return w.planned("victim")
	}),
}
