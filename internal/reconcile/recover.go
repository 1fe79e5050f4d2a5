package reconcile

import (
	"context"
	"fmt"
	"sync"

	"gated/internal/base/op"
)

// recovering is how many targets are looked at side by side at the start, so that their ends share fsyncs.
const recovering = 16

// Recover ends what was under way when the daemon stopped. Nothing may run before it returns. If a target cannot be
// looked at, its step stays dispatched: no other step of it runs, and Run tries again. The error is the journal's.
func (r *Reconciler) Recover(ctx context.Context) error {
	steps, err := r.Gate.Dispatched(ctx)
	if err != nil {
		return fmt.Errorf("read what was under way: %w", err)
	}
	work := make(chan op.Step)
	var wg sync.WaitGroup
	for range min(recovering, len(steps)) {
		wg.Go(func() {
			for s := range work {
				r.attend(ctx, r.Drivers[s.Target.Kind], s.Target)
			}
		})
	}
	for _, s := range steps {
		if r.Drivers[s.Target.Kind] == nil {
			r.Logger.Error("no driver can say how a step ended", "step", s.ID.String(), "target", s.Target.String())
			continue
		}
		r.attach(s, &attached{step: s, task: s.Task})
		work <- s
	}
	close(work)
	wg.Wait()
	return nil
}
