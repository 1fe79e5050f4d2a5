// Package ledger keeps the row changes of a gate's commits where another machine can read them: a chain of signed groups.
// SQLite stays the gate's state; the chain makes the same state again elsewhere.
package ledger

import (
	"context"
	"errors"
	"math"
	"time"
)

// Digest is a SHA-256.
type Digest [32]byte

// Group is what one COMMIT changed.
type Group struct {
	Number    uint64 // from 1, without a gap
	Era       uint64 // of the active daemon that made it
	Previous  Digest // of the group before it, zero for the first
	Body      []byte // compressed row changes
	Signature []byte // by the gate's key, over all of the above
}

// Position is how far a ledger is.
type Position struct {
	Era  uint64 // the newest that was taken, 0 before the first
	Beat uint64 // how often an active daemon said that it lives
	Last uint64 // the number of the newest group, 0 for none
}

// Ended is the era of a ledger that its gate left: no daemon takes a later one.
const Ended uint64 = math.MaxInt64

// What an engine answers, besides errors of its own that say why it is away.
var (
	// ErrFenced: another daemon took a later era. The caller is not active any more, and nothing of it was kept.
	ErrFenced = errors.New("another daemon took over")
	// ErrUnavailable: nothing was kept, and the caller may try again.
	ErrUnavailable = errors.New("the ledger is away")
	// ErrInDoubt: the group may have been kept or not. Settle says which; nothing else may be appended before.
	ErrInDoubt = errors.New("it is not known whether the group was kept")
)

// Engine keeps the chain of one gate. One daemon appends at a time; the era is the fence between two that both think so.
type Engine interface {
	// Position reads how far the ledger is.
	Position(ctx context.Context) (Position, error)
	// Take begins the era after from, and so fences the earlier ones. ErrFenced if from is not the newest.
	Take(ctx context.Context, from uint64) (Position, error)
	// Append keeps a group, durably and replicated, after the one before it. It has no context, because a cancelled
	// COMMIT is reported as done (docs/design/ledger.md): it returns within the engine's own limit of time.
	Append(g Group) error
	// Settle says after ErrInDoubt whether the group of this era and number is kept, durably and for good. With an error,
	// that is not known yet. After ErrFenced it is not asked again.
	Settle(era, number uint64) (kept bool, err error)
	// Read returns at most max groups after a number, in order.
	Read(ctx context.Context, after uint64, max int) ([]Group, error)
	// Beat says that the active daemon of an era lives. ErrFenced like Append.
	Beat(era uint64) error
	// End ends the ledger: its era is Ended from now on, and its beat is from. ErrFenced if from is not the newest era.
	End(ctx context.Context, from uint64) error
	// Close ends calls that are under way.
	Close() error
}

// Timed is an engine that knows what time it is where the ledger is.
type Timed interface {
	// Time reads the ledger's own clock.
	Time(ctx context.Context) (time.Time, error)
}
