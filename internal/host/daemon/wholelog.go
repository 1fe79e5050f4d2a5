package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"gated/internal/base/store"
	"gated/internal/driver"
	"gated/internal/log/audit"
	"gated/internal/wire/api"
)

// wholeLog verifies the audit log once, after the start: a start that waited for
// it would take longer the longer a gate lives. What came of it status shows for as
// long as the daemon runs.
type wholeLog struct {
	store *store.Store
	log   *slog.Logger
	says  atomic.Pointer[api.Health]
}

func newWholeLog(s *store.Store, log *slog.Logger) *wholeLog {
	w := &wholeLog{store: s, log: log}
	w.say(true, "not verified yet since the start")
	return w
}

func (w *wholeLog) say(ok bool, detail string) {
	w.says.Store(&api.Health{Name: "audit log", OK: ok, Detail: detail})
}

// health is what came of it so far.
func (w *wholeLog) health() api.Health { return *w.says.Load() }

// run verifies the log, and ends with ctx: a part that ended sooner would end
// the daemon.
func (w *wholeLog) run(ctx context.Context) error {
	err := driver.Safely(w.log, "verify the audit log", func() error { return w.verify(ctx) })
	var broken *audit.BrokenError
	switch {
	case err == nil || ctx.Err() != nil:
	case errors.As(err, &broken):
		w.log.Error("the audit log is not what was written", "entry", broken.Seq, "why", broken.Why)
		w.say(false, fmt.Sprintf("somebody changed it: %v; gated audit verify says so too, and opsign refuses a gate whose log does not go on "+
			"from what it remembers; sign nothing here, see \"Suspected tampering\" in the runbook", broken))
	default:
		w.log.Error("the audit log could not be verified", "error", err)
		w.say(false, "could not be verified after the start: "+err.Error()+"; try gated audit verify")
	}
	<-ctx.Done()
	return nil
}

// verify reads the log in one snapshot. It rests as long as it works, so that
// decisions, which matter more, find a CPU.
func (w *wholeLog) verify(ctx context.Context) error {
	var head audit.Head
	err := w.store.View(ctx, func(tx *store.Tx) error {
		recorded, err := audit.ReadHead(tx)
		if err != nil {
			return err
		}
		since := now()
		head, err = audit.Checker{
			Progress: func(done int64) error {
				w.say(true, fmt.Sprintf("verified up to entry %d of %d since the start", done, recorded.Seq))
				rest(ctx, min(now().Sub(since), longestRest))
				since = now()
				return ctx.Err()
			},
		}.Verify(tx)
		return err
	})
	if err == nil {
		w.log.Info("the audit log is whole", "entries", head.Seq)
		w.say(true, fmt.Sprintf("verified up to entry %d at the start", head.Seq))
	}
	return err
}

// longestRest bounds how much longer a busy machine makes the snapshot live, for as
// long as which the WAL is not reset.
const longestRest = 20 * time.Millisecond

// rest waits, or until ctx ends.
func rest(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
