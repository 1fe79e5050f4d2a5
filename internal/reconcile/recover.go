package reconcile

import (
	"context"
	"fmt"
	"sync"

	"gated/internal/op"
)

// recovering is how many targets are looked at side by side at the start, so
// that what they turn out to be shares its fsyncs.
const recovering = 16

// Recover ends what was under way when the daemon stopped. Nothing may run
// before it returned. A target that cannot be looked at keeps its step: nothing
// of it runs until it can, and Run goes on trying. The error is the journal's.
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
			r.Logger.Error("no driver can say what became of a step", "step", s.ID.String(), "target", s.Target.String())
			continue
		}
		r.attach(s, &attached{step: s, task: s.Task})
		work <- s
	}
	close(work)
	wg.Wait()
	return nil
}
