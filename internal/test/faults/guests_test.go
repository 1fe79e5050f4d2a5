package faults

import (
	"context"

	"gated/internal/base/op"
	"gated/internal/gate"
)

// guests are a back end that is a map, so that what was prepared can be had
// again.
type guests map[string]op.Observed

// Observe looks at one guest.
func (g guests) Observe(_ context.Context, l op.Look) (op.Observed, error) {
	t := l.Target
	if o, ok := g[t.Name]; ok {
		return o, nil
	}
	return op.Observed{Target: t, Running: "absent"}, nil
}

// execute runs a permit's step, as a driver does: it looks, uses the permit, and
// only then acts.
func (h *host) execute(ctx context.Context, p gate.Permit) error {
	s := p.Step()
	now, err := h.guests.Observe(ctx, s.Look())
	if err != nil {
		return err
	}
	if err := p.Use(ctx, now); err != nil {
		return err
	}
	h.acted[s.ID]++
	switch s.Op {
	case "guest.create":
		now = op.Observed{Target: s.Target, Present: true, Incarnation: op.Incarnation("i-" + s.Target.Name), Birth: s.Birth,
			Running: "stopped", Fingerprint: op.FingerprintOf([]byte(s.Target.Name)),
			Storage: []op.StorageID{op.StorageID("data:" + s.Target.Name)}, Spec: op.Params{}}
	case "guest.start":
		now.Running = "running"
	case "guest.destroy":
		delete(h.guests, s.Target.Name)
		return nil
	}
	h.guests[s.Target.Name] = now
	return nil
}
