package reserve

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"gated/internal/audit"
	"gated/internal/crashpoint"
	"gated/internal/op"
	"gated/internal/store"
	"gated/internal/turns"
)

// Config is what a Book needs.
type Config struct {
	Store *store.Store

	// Now is the gate's clock, which never goes back.
	Now func() time.Time

	// Append writes entries of the audit log; the time and the gate's id are set
	// by it.
	Append func(*store.Tx, ...audit.Entry) error

	// Spend counts bytes that a requester has written, and refuses what is beyond its
	// quota, or what the disk has no room for. Nil counts nothing.
	Spend func(*store.Tx, op.Requester, int64) error

	// Still refuses, as Unavailable, a change of who holds what in a scope while an
	// operator decides about all of it. Nil refuses none.
	Still func(*store.Tx, op.Target) error

	// Agent returns the registered agent of a name.
	Agent func(name string) (Holder, bool)

	// Registered reports whether a holder's registration still stands, in this
	// transaction.
	Registered func(*store.Tx, Holder) (bool, error)

	// Alive says whether a holder is, for what is shown.
	Alive func(Holder) bool

	// Changed is called, after what changed is on disk, for each scope whose
	// reservations changed. It must not block. May be nil.
	Changed func(op.Target)

	Logger *slog.Logger // nil for none
}

// Book is the reservations of a host. Its methods may be called by several
// goroutines. Their errors are refusals, but for the context's own.
type Book struct {
	cfg      Config
	log      *slog.Logger
	patterns *cache
	queue    *queue
	turns    *turns.Turns
	inside   int64         // smallWork
	moved    chan struct{} // for Run: what is due next may be something else
}

// New returns the book of a database that has Schema.
func New(c Config) *Book {
	b := &Book{cfg: c, log: c.Logger, patterns: newCache(), queue: &queue{}, turns: turns.New(maxSearches, 1),
		inside: smallWork, moved: make(chan struct{}, 1)}
	if b.log == nil {
		b.log = slog.New(slog.DiscardHandler)
	}
	return b
}

// outcome is what a transaction did, for after it. It begins anew each time the
// transaction's function runs. What is in it without need costs others a look.
type outcome struct {
	now time.Time

	// What may be spent in this transaction yet: on the search, on those that wait
	// before a claim, and on whom to wake.
	left, queueLeft, wakeLeft int64

	room int // how many more reservations it may end

	free   []region           // paths that somebody has no more, or has less of
	gained []Holder           // who was given something
	scopes map[op.Target]bool // whose reservations changed
	refuse error              // where something was written all the same
}

func (b *Book) outcome(now time.Time) *outcome {
	return &outcome{now: now, left: b.inside, queueLeft: queueWork, wakeLeft: wakeWork}
}

func (o *outcome) changed(t op.Target) {
	if o.scopes == nil {
		o.scopes = map[op.Target]bool{}
	}
	o.scopes[t] = true
}

// update runs fn in a transaction in which what was due is taken care of before,
// and does afterwards what has to wait until it is on disk. That fn refuses does
// not undo what was due.
func (b *Book) update(ctx context.Context, fn func(*store.Tx, *outcome) error) error {
	var out *outcome
	err := b.cfg.Store.Update(ctx, func(tx *store.Tx) error {
		out = b.outcome(b.cfg.Now())
		done, err := b.due(tx, out, Batch)
		if err != nil {
			return err
		}
		out.room = Batch - done
		if done == 0 {
			err = fn(tx, out)
			crashpoint.Here(crashpoint.BookWritten)
			return err
		}
		err = tx.Savepoint(func() error { return fn(tx, out) })
		crashpoint.Here(crashpoint.BookWritten)
		if _, ok := errors.AsType[*op.Refusal](err); ok {
			out.refuse = err
			return nil
		}
		return err
	})
	if err == nil {
		crashpoint.Here(crashpoint.BookKept)
		b.settle(out)
		err = out.refuse
	}
	return b.shown(err)
}

// settle does what follows from a transaction that is on disk.
func (b *Book) settle(o *outcome) {
	b.queue.wake(o.free, o.gained)
	if len(o.scopes) > 0 {
		select {
		case b.moved <- struct{}{}:
		default:
		}
	}
	if b.cfg.Changed != nil {
		for t := range o.scopes {
			b.cfg.Changed(t)
		}
	}
}

// shown turns an error into one that a caller may be shown.
func (b *Book) shown(err error) error {
	switch _, refused := errors.AsType[*op.Refusal](err); {
	case err == nil, refused:
		return err
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, store.ErrUnavailable):
		b.log.Error("reservations: not decided", "error", err)
		return op.Refuse(op.Unavailable, "the database cannot be written or read now, so nothing was decided").
			WithHint("see the daemon's log; try again when the disk has space and works")
	default:
		b.log.Error("reservations: internal error", "error", err)
		return op.Refuse(op.Internal, "an internal error; nothing was decided").WithHint("the daemon's log has it")
	}
}

// view runs fn on a snapshot.
func (b *Book) view(ctx context.Context, fn func(tx *store.Tx, now time.Time) error) error {
	now := b.cfg.Now()
	return b.shown(b.cfg.Store.View(ctx, func(tx *store.Tx) error { return fn(tx, now) }))
}
