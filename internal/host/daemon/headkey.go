package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync/atomic"
	"time"

	"gated/client/api"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/driver"
	"gated/internal/host/life"
	"gated/internal/host/state"
	"gated/internal/log/audit"
	"gated/internal/log/checkpoint"
)

// headKey returns the key of an opened gate. An id that has none yet (after an
// init, a restore, an accepted clock or an upgrade) gets one, which is fresh
// until enrolKey has written it into the log. One that was enrolled and whose
// file is not there any more is Unavailable: a gate that made itself another
// could sign for a log with another past.
//
// A key of this very id that no database names is enrolled and not replaced: a
// start may have been cut off before it was written down, or an older database
// lies in the place of the one that names it, and that one shall start again.
func headKey(ctx context.Context, o *life.Opened) (key checkpoint.Key, fresh bool, err error) {
	var public string
	err = o.Store.View(ctx, func(tx *store.Tx) error {
		public, err = audit.PublicKey(tx, o.ID.Gate)
		return err
	})
	if err != nil {
		return key, false, err
	}
	path := filepath.Join(o.Dir.Path(), state.KeyName)
	if public == "" {
		if key, err = life.ReadKey(path); err == nil && key.Of(o.ID.Gate) {
			return key, true, nil
		}
		if key, err = checkpoint.NewKey(o.ID.Gate); err != nil {
			return key, false, err
		}
		return key, true, state.ReplaceFile(path, []byte(key.Text()))
	}
	if key, err = life.ReadKey(path); err == nil && key.Public != public {
		err = fmt.Errorf("%s is not the key that the audit log names", path)
	}
	if err != nil {
		return key, false, refusal.New(refusal.Unavailable, "the gate's own key cannot be used: %v", err).
			WithHint("put the file %s back as it was; or go on under a new gate id with a key of its own: gated restore BACKUP --state %s",
				path, o.Dir.Path())
	}
	return key, false, nil
}

// signsFor returns the key if the log still stands on the head that was signed
// last, and none if not: what happens is logged on, unsigned, and every operator
// who saw that head is told by opsign.
func signsFor(ctx context.Context, o *life.Opened, key checkpoint.Key, log *slog.Logger) (checkpoint.Signer, error) {
	var broken *audit.BrokenError
	err := o.Store.View(ctx, func(tx *store.Tx) error { return audit.CheckHead(tx) })
	if errors.As(err, &broken) {
		log.Error("the audit log is not the one that this gate signed for: no head of it is signed any more", "error", broken,
			"hint", "gated audit verify; gated docs runbook, Suspected tampering")
		return nil, nil
	}
	return key.Signer, err
}

// enrolKey writes a fresh key's public half into the database and the log, in
// the transaction of the first head that it signs.
func (d *daemon) enrolKey(ctx context.Context, key checkpoint.Key) error {
	return d.gate.Answer(d.opened.Store.Update(ctx, func(tx *store.Tx) error {
		if err := audit.SetPublicKey(tx, d.gate.ID(), key.Public); err != nil {
			return err
		}
		return d.gate.Append(tx, audit.Entry{Kind: audit.Keyed, By: "gate", Detail: key.Public,
			Parts: audit.Parts{HeadKey: key.Public}})
	}))
}

// wholeLog verifies the audit log once, after the start: a start that waited for
// it would take longer the longer a gate lives. What came of it status shows for as
// long as the daemon runs.
type wholeLog struct {
	store *store.Store
	log   *slog.Logger
	says  atomic.Pointer[api.Verified]
}

func newWholeLog(s *store.Store, log *slog.Logger) *wholeLog {
	w := &wholeLog{store: s, log: log}
	w.say(true, "not verified yet since the start")
	return w
}

func (w *wholeLog) say(ok bool, detail string) { w.says.Store(&api.Verified{OK: ok, Detail: detail}) }

// verified is what came of it so far.
func (w *wholeLog) verified() api.Verified { return *w.says.Load() }

// health is the same for status.
func (w *wholeLog) health() api.Health {
	v := w.verified()
	return api.Health{Name: "audit log", OK: v.OK, Detail: v.Detail}
}

// verifyAgain is between two tries to read a log that could not be read.
const verifyAgain = 5 * time.Second

// run verifies the log, and ends with ctx: a part that ended sooner would end
// the daemon. If the log cannot be read, it tries again: a directory that was away
// for a moment must not leave the gate bad until the next start.
func (w *wholeLog) run(ctx context.Context) error {
	said := ""
	for ctx.Err() == nil {
		err := driver.Safely(w.log, "verify the audit log", func() error { return w.verify(ctx) })
		var broken *audit.BrokenError
		switch {
		case ctx.Err() != nil:
		case errors.As(err, &broken):
			w.say(false, fmt.Sprintf("somebody changed it: %v; gated audit verify says so too, and opsign refuses a gate whose log does not go on "+
				"from what it remembers; sign nothing here, see \"Suspected tampering\" in gated docs runbook", broken))
			w.log.Error("the audit log is not what was written", "entry", broken.Seq, "why", broken.Why)
			<-ctx.Done()
		case err != nil:
			if said != err.Error() {
				w.log.Error("the audit log could not be verified", "error", err)
			}
			said = err.Error()
			w.say(false, "could not be verified after the start: "+said+"; it is tried again; or try gated audit verify")
			rest(ctx, verifyAgain)
		default:
			<-ctx.Done()
		}
	}
	return nil
}

// verify reads the log in one snapshot. It rests as long as it works, so that
// decisions, which matter more, find a CPU.
func (w *wholeLog) verify(ctx context.Context) error {
	var head, bound audit.Head
	err := w.store.View(ctx, func(tx *store.Tx) error {
		recorded, err := audit.ReadHead(tx)
		if err != nil {
			return err
		}
		if bound, err = audit.Bound(tx); err != nil {
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
		at := now().UTC()
		w.says.Store(&api.Verified{OK: true, Entries: head.Seq, Hash: head.Hash, At: &at, NotRead: bound.Seq, Detail: verifiedUpTo(head, bound)})
		if bound.Seq > 0 {
			w.log.Info("the audit log is whole from the oldest entry on that is not archived", "entries", head.Seq, "not_read", bound.Seq)
		} else {
			w.log.Info("the audit log is whole", "entries", head.Seq) // status says so already
		}
	}
	return err
}

// verifiedUpTo says what a check has read, and what not.
func verifiedUpTo(head, bound audit.Head) string {
	if bound.Seq == 0 {
		return fmt.Sprintf("verified up to entry %d at the start", head.Seq)
	}
	return fmt.Sprintf("verified from entry %d up to entry %d at the start; entries 1 to %d are archived and were NOT read, and the hashes of their tiles fit; "+
		"gated audit verify reads them too", bound.Seq+1, head.Seq, bound.Seq)
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
