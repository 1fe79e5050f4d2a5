package daemon

import (
	"context"
	"sync"

	"gated/internal/api"
	"gated/internal/gate"
	"gated/internal/store"
)

// eventLog reads the audit log for the server and wakes who waits for more.
type eventLog struct {
	gate  *gate.Gate
	store *store.Store

	mu   sync.Mutex
	more chan struct{} // closed and replaced after each commit
}

func newEventLog(g *gate.Gate, s *store.Store) *eventLog {
	l := &eventLog{gate: g, store: s, more: make(chan struct{})}
	s.OnCommit(l.committed)
	return l
}

func (l *eventLog) committed() {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.more)
	l.more = make(chan struct{})
}

func (l *eventLog) changed() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.more
}

// Audit returns up to limit entries above after.
func (l *eventLog) Audit(ctx context.Context, after int64, limit int) ([]api.Entry, error) {
	bodies, err := l.gate.EventTexts(ctx, after, limit)
	if err != nil {
		return nil, err
	}
	out := make([]api.Entry, len(bodies))
	for i, b := range bodies {
		if out[i], err = api.ParseEntry(b); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Head returns the newest entry's number and hash.
func (l *eventLog) Head(ctx context.Context) (api.Head, error) {
	h, err := l.gate.AuditHead(ctx)
	return api.Head{Seq: h.Seq, Hash: h.Hash}, err
}

// Events is Audit, of what concerns one holder where one is named.
func (l *eventLog) Events(ctx context.Context, after int64, limit int, concerns string) ([]api.Entry, int64, error) {
	if concerns != "" {
		return l.concerning(ctx, after, limit, concern(concerns))
	}
	entries, err := l.Audit(ctx, after, limit)
	if err != nil || len(entries) == 0 {
		return nil, after, err
	}
	return entries, entries[len(entries)-1].Seq, nil
}

// Wait returns when the log has an entry above after, or ctx ends.
func (l *eventLog) Wait(ctx context.Context, after int64) error {
	for {
		more := l.changed()
		head, err := l.gate.AuditHead(ctx)
		if err != nil || head.Seq > after {
			return err
		}
		select {
		case <-more:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
