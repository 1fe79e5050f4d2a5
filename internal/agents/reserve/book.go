package reserve

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"sync/atomic"
	"time"

	"gated/internal/base/crashpoint"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/base/turns"
	"gated/internal/log/audit"
)

// Config is what a Book needs.
type Config struct {
	Store *store.Store

	// Now is the gate's clock, which never goes back.
	Now func() time.Time

	// Append writes entries of the audit log. It sets their time and the gate's id.
	Append func(*store.Tx, ...audit.Entry) error

	// Spend counts bytes that a requester has written. It refuses bytes beyond the requester's quota or the disk's
	// room. Nil counts nothing.
	Spend func(*store.Tx, op.Requester, int64) error

	// Still refuses a change of the reservations of a scope, as Unavailable, while an operator decides about all of
	// them. Nil refuses none.
	Still func(*store.Tx, op.Target) error

	// MayAct refuses, as Unavailable, an answer that changes nothing while another daemon may decide for the gate. A change
	// needs no look: the ledger refuses it. Nil refuses none.
	MayAct func() error

	// Agent returns the registered agent of a name.
	Agent func(name string) (Holder, bool)

	// Registered reports whether a holder's registration still stands, in this
	// transaction.
	Registered func(*store.Tx, Holder) (bool, error)

	// Alive reports whether a holder's process lives. Answers show it; nothing is decided by it.
	Alive func(Holder) bool

	// Changed is called for each scope whose reservations changed, after the change is on disk. It must not block. May
	// be nil.
	Changed func(op.Target)

	Logger *slog.Logger // nil for none
}

// Book is the reservations of a host. Several goroutines may call its methods. Its errors are refusals, except those of
// the context.
type Book struct {
	cfg      Config
	log      *slog.Logger
	patterns *cache
	queue    *queue
	underway underway
	turns    *turns.Turns
	inside   int64         // smallWork
	moved    chan struct{} // tells Run that something is due before it looks again
	looks    atomic.Int64  // when Run looks again, in nanoseconds; never, while it looks
}

// New returns the book of a database that has Schema.
func New(c Config) *Book {
	b := &Book{cfg: c, log: c.Logger, patterns: newCache(), queue: &queue{}, underway: underway{all: map[*writing]bool{}}, turns: turns.New(maxSearches, 1),
		inside: smallWork, moved: make(chan struct{}, 1)}
	b.looks.Store(math.MaxInt64)
	if b.log == nil {
		b.log = slog.New(slog.DiscardHandler)
	}
	return b
}

// outcome collects what a transaction did, for the work after it. It begins anew each time the transaction's function
// runs. Each needless entry makes other claims look again.
type outcome struct {
	now time.Time

	// The work that this transaction may still spend: on the search, on the claims that wait before this one, and on
	// finding the claims to wake.
	left, queueLeft, wakeLeft int64

	room int // how many more reservations it may end

	free   []region           // paths that a holder lost, or now shares
	gained []Holder           // holders that got something
	scopes map[op.Target]bool // whose reservations changed
	due    int64              // the first time at which something that changed is due, in nanoseconds; 0 for none
	refuse error              // the refusal, if the transaction also wrote something that must stay
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

// dueBy says that something is due at a time, in nanoseconds.
func (o *outcome) dueBy(at int64) {
	if o.due == 0 || at < o.due {
		o.due = at
	}
}

// update first handles what is due, then runs fn, in one transaction. After the commit it does the work that must wait
// for the disk. If fn refuses, what was due stays done.
func (b *Book) update(ctx context.Context, fn func(*store.Tx, *outcome) error) error {
	var out *outcome
	self := &writing{done: make(chan struct{})}
	err := b.cfg.Store.Update(ctx, func(tx *store.Tx) error {
		out = b.outcome(b.underway.begin(self, b.cfg.Now))
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
		if _, ok := errors.AsType[*refusal.Refusal](err); ok {
			out.refuse = err
			return nil
		}
		return err
	})
	b.underway.end(self)
	if err == nil {
		crashpoint.Here(crashpoint.BookKept)
		b.settle(out)
		err = out.refuse
	}
	return b.shown(err)
}

// settle does the work that follows a transaction once it is on disk.
func (b *Book) settle(o *outcome) {
	b.queue.wake(o.free, o.gained)
	if o.due != 0 && o.due < b.looks.Load() {
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

// shown turns an error into one that a caller may see.
func (b *Book) shown(err error) error {
	switch _, refused := errors.AsType[*refusal.Refusal](err); {
	case err == nil, refused:
		return err
	case store.InDoubt(err): // also if a time that ended is the cause
		b.log.Error("reservations: whether it is decided is not known", "error", err)
		return refusal.New(refusal.Unavailable, "it is not known now whether this was decided, because the database does not say whether it kept it").
			WithHint("when the gate answers again, look first: gated reservation list")
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, store.ErrUnavailable):
		b.log.Error("reservations: not decided", "error", err)
		return refusal.New(refusal.Unavailable, "the database cannot be written or read now, so nothing was decided").
			WithHint("gated status says what is wrong; try again when the disk has space and works")
	default:
		b.log.Error("reservations: internal error", "error", err)
		return refusal.New(refusal.Internal, "an internal error; nothing was decided").WithHint("the daemon's log has it")
	}
}
