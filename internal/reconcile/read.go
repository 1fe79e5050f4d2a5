package reconcile

import (
	"context"
	"time"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver"
)

// sourceState is the result of the last read of a source.
type sourceState struct {
	docs   []SetDoc
	err    error
	readAt time.Time
}

// read reads every source. It queues targets whose wish changed, and remembers which wishes ended and must be
// withdrawn.
func (r *Reconciler) read(ctx context.Context) {
	r.reading.Lock()
	defer r.reading.Unlock()
	states := make([]sourceState, len(r.Sources))
	for i, s := range r.Sources {
		states[i].err = driver.Safely(r.Logger, "the source "+s.Name(), func() (err error) {
			states[i].docs, err = s.Read(ctx)
			return err
		})
		if states[i].err == nil {
			states[i].err = r.checkHost(states[i].docs)
		}
		if states[i].err != nil {
			states[i].docs = nil
			if ctx.Err() != nil {
				return // a read that was cut off proves nothing
			}
		}
		states[i].readAt = r.Now()
	}
	r.mu.Lock()
	unchanged := sameDocs(r.sources, states)
	r.logErrors(states)
	r.sources = states
	r.mu.Unlock()
	if !unchanged {
		r.take(states)
	}
}

// checkHost refuses documents that are for another host (P10).
func (r *Reconciler) checkHost(docs []SetDoc) error {
	for _, d := range docs {
		if d.Doc.Host != r.Host {
			return refusal.New(refusal.TargetMismatch, "%s is for the host %q, and this one is %q", d.Set, d.Doc.Host, r.Host).
				WithHint("nothing of this source is taken until it is moved or corrected")
		}
	}
	return nil
}

// sameDocs reports whether two reads returned the same documents.
func sameDocs(old, new []sourceState) bool {
	for i := range new {
		if (old[i].err == nil) != (new[i].err == nil) || len(old[i].docs) != len(new[i].docs) || old[i].readAt.IsZero() {
			return false
		}
		for j := range new[i].docs {
			if old[i].docs[j].Set != new[i].docs[j].Set || old[i].docs[j].Digest != new[i].docs[j].Digest {
				return false
			}
		}
	}
	return true
}

// take replaces the index and queues what differs.
func (r *Reconciler) take(states []sourceState) {
	docs, whole := make([][]SetDoc, 0, len(states)), true
	for _, s := range states {
		docs = append(docs, s.docs)
		whole = whole && s.err == nil
	}
	ix := newIndex(docs, whole)
	var changed []op.Target
	r.mu.Lock()
	old := r.wishes
	r.wishes = ix
	for t, w := range ix.wishes {
		if before := old.wishes[t]; before == nil || !before.same(w) {
			changed = append(changed, t)
			m := r.target(t)
			m.retry = nil
			if before != nil {
				m.stopped = nil // the wish is another now
			}
			r.forget(ix, t, before)
		} else {
			w.found = before.found
		}
	}
	for t, before := range old.wishes {
		if ix.wishes[t] == nil {
			changed = append(changed, t)
			r.forget(ix, t, before)
			if m := r.targets[t]; m != nil {
				m.adopted, m.unknown = nil, ""
			}
		}
	}
	r.mu.Unlock()
	for _, t := range changed {
		r.queue.add(t)
	}
}

// forget remembers which sets must withdraw their wishes for a target. If a set could not be read, nothing of it is
// withdrawn: its wish only rests. The caller holds r.mu.
func (r *Reconciler) forget(ix *index, t op.Target, before *wish) {
	if before == nil {
		return
	}
	for _, set := range before.sets {
		if !ix.knows(set) || ix.wants(set, t) {
			continue
		}
		m := r.target(t)
		if m.withdraw == nil {
			m.withdraw = map[string]bool{}
		}
		m.withdraw[set] = true
		m.stopped = nil
	}
}

// logErrors logs each source's error that is new.
func (r *Reconciler) logErrors(states []sourceState) {
	for i, s := range states {
		before, now := r.sources[i].err, s.err
		switch {
		case now != nil && (before == nil || before.Error() != now.Error()):
			r.Logger.Warn("desired state cannot be read", "source", r.Sources[i].Name(), "error", now)
		case now == nil && before != nil:
			r.Logger.Info("desired state can be read again", "source", r.Sources[i].Name())
		}
	}
}
