package service

import (
	"context"
	"sync"

	"gated/client/api"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/gate"
	"gated/internal/log/audit"
	"gated/internal/log/checkpoint"
)

// Log reads the audit log for the server, and wakes callers that wait for more.
type Log struct {
	gate  *gate.Gate
	store *store.Store
	older audit.Older   // nil if no segment is at hand
	files chan struct{} // held by the one call that may read segment files

	mu   sync.Mutex
	more chan struct{} // closed and replaced after each commit
}

// NewLog reads the log of a gate, and what segments have of it with older. The gate tells it of each commit.
func NewLog(g *gate.Gate, s *store.Store, older audit.Older) *Log {
	l := &Log{gate: g, store: s, older: older, files: make(chan struct{}, 1), more: make(chan struct{})}
	s.OnCommit(l.committed)
	return l
}

func (l *Log) committed() {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.more)
	l.more = make(chan struct{})
}

func (l *Log) changed() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.more
}

// Audit returns up to limit entries above after. It stops when they have so many bytes.
func (l *Log) Audit(ctx context.Context, after int64, limit, bytes int) ([]api.Entry, error) {
	bodies, err := l.gate.EventTexts(ctx, after, limit, bytes)
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

// view reads in one snapshot.
func (l *Log) view(ctx context.Context, fn func(*store.Tx) error) error {
	return l.gate.Answer(l.store.View(ctx, fn))
}

// prove makes a proof from the database alone, and only if that does not suffice with segment files. One call at a time reads
// these, and the others wait without a connection to the database: decisions need one.
func (l *Log) prove(ctx context.Context, fn func(*store.Tx, audit.Proofs) error) error {
	err := l.view(ctx, func(tx *store.Tx) error { return fn(tx, audit.Proofs{}) })
	if l.older == nil || refusal.CodeOf(err) != refusal.Unavailable {
		return err
	}
	select {
	case l.files <- struct{}{}:
	case <-ctx.Done():
		return refusal.New(refusal.Unavailable, "other calls read segment files of the archive, and this one waited for too long: %v", context.Cause(ctx))
	}
	defer func() { <-l.files }()
	return l.view(ctx, func(tx *store.Tx) error { return fn(tx, audit.Proofs{Older: l.older}) })
}

// Head returns the newest entry's number and hash, and the signed head.
func (l *Log) Head(ctx context.Context) (out api.Head, err error) {
	return out, l.view(ctx, func(tx *store.Tx) error {
		newest, err := audit.ReadHead(tx)
		if err != nil {
			return err
		}
		bound, err := audit.Bound(tx)
		if err != nil {
			return err
		}
		out.Seq, out.Hash, out.Archived = newest.Seq, newest.Hash, bound.Seq
		signed, err := audit.SignedHead(tx)
		out.Note, out.Key = signed.Note, signed.Key
		return err
	})
}

// Consistency proves that the log's first old entries are among its first size. It refuses, as BadParams, sizes larger
// than the log.
func (l *Log) Consistency(ctx context.Context, old, size int64) (api.Consistency, error) {
	out := api.Consistency{Old: old, Size: size}
	return out, l.prove(ctx, func(tx *store.Tx, p audit.Proofs) error {
		proof, err := p.Consistency(tx, old, size)
		out.Proof = checkpoint.EncodeHashes(proof)
		return err
	})
}

// Inclusion proves that an entry is in the log of the signed head. It is UnknownTarget if it is not.
func (l *Log) Inclusion(ctx context.Context, seq int64) (api.Inclusion, error) {
	out := api.Inclusion{Seq: seq}
	return out, l.prove(ctx, func(tx *store.Tx, p audit.Proofs) error {
		head, err := audit.SignedHead(tx)
		if err != nil {
			return err
		}
		if head.Note == "" {
			return refusal.New(refusal.Unavailable, "the gate has signed no head of its audit log").
				WithHint("gated audit verify says whether the log is whole")
		}
		text, proof, err := p.Inclusion(tx, seq, head.Size)
		out.Note, out.Key, out.Entry, out.Proof = head.Note, head.Key, string(text), checkpoint.EncodeHashes(proof)
		return err
	})
}

// Events is Audit; if a holder is named, an agent or uid:1000, it has only the entries that concern it. next is the
// number of the last entry that it read, at least after. If next is after, there are no more.
func (l *Log) Events(ctx context.Context, after int64, limit, bytes int, concerns string) (events []api.Entry, next int64, err error) {
	if concerns != "" {
		return l.concerning(ctx, after, limit, bytes, concern(concerns))
	}
	entries, err := l.Audit(ctx, after, limit, bytes)
	if err != nil || len(entries) == 0 {
		return nil, after, err
	}
	return entries, entries[len(entries)-1].Seq, nil
}

// Wait returns when the log has an entry above after, or ctx ends.
func (l *Log) Wait(ctx context.Context, after int64) error {
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
