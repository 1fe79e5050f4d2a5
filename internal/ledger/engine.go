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
	Last uint64 // the number of the newest group, or of the base if there is none after it; 0 for none
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
	// Read returns at most max groups after a number, in order. Those that a base took the place of are gone.
	Read(ctx context.Context, after uint64, max int) ([]Group, error)
	// Beat says that the active daemon of an era lives. ErrFenced like Append.
	Beat(era uint64) error
	// End ends the ledger: its era is Ended from now on, and its beat is from. ErrFenced if from is not the newest era.
	End(ctx context.Context, from uint64) error
	// Base returns the newest base, without its rows; its Number is 0 if there is none.
	Base(ctx context.Context) (Base, error)
	// BaseBody returns the rows of that base. It is an error if a newer one has taken its place.
	BaseBody(ctx context.Context, b Base) (body []byte, err error)
	// PutBase keeps a base as Append keeps a group, and in the same moment drops the groups up to its number, and the base
	// before. It changes nothing if the ledger has such a base or a newer one. ErrFenced if the era is not in, because
	// another daemon may have changed what the base rests on. After another error, Base says what came of it.
	PutBase(b Base, body []byte, in uint64) error
	// Mend begins an era above from's, and keeps a base instead of all that the ledger has. ErrFenced if the ledger is not as
	// far as from any more (Beat does not count): then it dropped nothing. After an error nothing of it, the era alone, or, but
	// for ErrFenced, all of it is kept.
	Mend(ctx context.Context, from Position, era uint64, b Base, body []byte) error
	// Close ends calls that are under way.
	Close() error
}

// Timed is an engine that knows what time it is where the ledger is.
type Timed interface {
	// Time reads the ledger's own clock.
	Time(ctx context.Context) (time.Time, error)
}
