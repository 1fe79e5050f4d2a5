package store

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"

	"gated/internal/base/crashpoint"
)

// Place is how far a database is in the groups that a Keeper keeps. Before the first group it is the zero Place.
type Place struct {
	Number uint64   // of the newest group in the database
	Era    uint64   // of the daemon that made it
	Digest [32]byte // of it and all before it
}

// Kept is one group that a Keeper has kept, or all rows that the groups up to a place make.
type Kept struct {
	Place          // after it
	Schema  int    // of the database that made it
	Changes []byte // as in DecodeChanges
	Base    bool   // all rows that travel, for a database that has none
}

// Keeper keeps the row changes of each group elsewhere before they are committed here. The writer's goroutine calls it,
// one call after the other, and waits. So each call but Settle ends within the Keeper's own limit of time.
type Keeper interface {
	// Begin is called first, by Open: here is how far this database is. If there is an error, Open returns it.
	Begin(ctx context.Context, here Place) error
	// After returns some of the groups after a place, in order, and checked. Without more of them it returns none. For the
	// zero Place the first one may be a base.
	After(ctx context.Context, here Place) ([]Kept, error)
	// Seal makes changes into the next group, and returns the place after it. Nothing is kept yet.
	Seal(schema int, changes []byte) (Place, error)
	// Keep keeps the sealed group, durably. The error is ErrKeepInDoubt if only Settle can say whether it is kept. After any
	// other error it is not kept, and never will be.
	Keep() error
	// Settle says after ErrKeepInDoubt whether the sealed group is kept, for good. The group's callers wait for it, because
	// what they hear must be true. So it returns an error only if stop was closed, or if an operator has to look.
	Settle(stop <-chan struct{}) (kept bool, err error)
}

// ErrKeepInDoubt is returned by a Keeper if the group may have been kept or not.
var ErrKeepInDoubt = errors.New("it is not known yet whether the group was kept")

// seal captures the group, and writes into the transaction how far the database is with it.
func (w *writer) seal() error {
	w.sealed = nil
	k := w.session.conn.capture
	if k == nil {
		return nil
	}
	if k.err != nil {
		return k.err
	}
	if len(k.changes) == 0 {
		return nil // no row of another machine's would change
	}
	if k.stays > 0 {
		return errMixed
	}
	crashpoint.Here(crashpoint.LedgerCaptured)
	place, err := w.store.keeper.Seal(w.store.schema, k.changes)
	if err != nil {
		return fmt.Errorf("seal a group: %w", err)
	}
	if err := w.session.setPlace(place); err != nil {
		return err
	}
	w.sealed = &Kept{Place: place, Schema: w.store.schema, Changes: k.changes}
	return nil
}

// errMixed is why a group is refused that changes rows that travel and rows that stay. If it is kept and not committed
// here, only the first can be brought into this database again.
var errMixed = errors.New("store: one call changes rows of this machine and rows that are kept elsewhere")

// errNotKept is what callers hear after a doubt that ended.
var errNotKept = errors.New("the ledger did not keep the group, and nothing happened")

// keep has the sealed group kept elsewhere. After an error the transaction is rolled back.
func (w *writer) keep() error {
	if w.sealed == nil {
		return nil
	}
	crashpoint.Here(crashpoint.LedgerSent)
	err := w.store.keeper.Keep()
	if errors.Is(err, ErrKeepInDoubt) {
		kept, unknown := w.store.keeper.Settle(w.stop)
		switch {
		case unknown != nil:
			w.parted = true
			return fmt.Errorf("%w: %w", err, unknown)
		case kept:
			err = nil
		default:
			w.store.log.Warn("it was not known for a time whether a group was kept, and it was not", "error", err)
			err = errNotKept
		}
	}
	if err != nil {
		return fmt.Errorf("keep the group: %w", err)
	}
	crashpoint.Here(crashpoint.LedgerAcknowledged)
	return nil
}

// errParted is why a writer runs no more groups. Callers heard that a group was not kept, and it may be. What this process
// remembers of its rows is perhaps not true any more, so the next Open brings the group into the database.
var errParted = errors.New("a group is perhaps kept, and is not in the database: the next start mends that")

// redeem brings the sealed group, which is kept, into the database after a COMMIT that failed. Its callers still wait.
func (w *writer) redeem() error {
	k := *w.sealed
	w.discard()
	if err := applyOnce(w.store.path, w.store.local, k); err != nil {
		w.parted = true
		return fmt.Errorf("%w: %w: %w", ErrKeepInDoubt, errParted, err)
	}
	w.store.log.Warn("a group that was kept elsewhere only is in the database now", "number", k.Number)
	w.committed()
	return nil
}

// The rows of store_meta that say how far the database is. They have numbers alone, so a digest is four of them.
var placeRows = [...]string{"ledger.number", "ledger.era", "ledger.digest.0", "ledger.digest.1", "ledger.digest.2", "ledger.digest.3"}

// setPlace writes how far the database is.
func (s *session) setPlace(p Place) error {
	args := []any{placeRows[0], int64(p.Number), placeRows[1], int64(p.Era)}
	for i := range 4 {
		args = append(args, placeRows[2+i], int64(binary.BigEndian.Uint64(p.Digest[8*i:])))
	}
	return s.control(`INSERT INTO store_meta (name, n) VALUES (?, ?), (?, ?), (?, ?), (?, ?), (?, ?), (?, ?)
		ON CONFLICT (name) DO UPDATE SET n = excluded.n`, args...)
}

// place reads how far the database is.
func (s *session) place() (p Place, err error) {
	var n [len(placeRows)]int64
	for i, name := range placeRows {
		err := s.one(noDeadline, `SELECT n FROM store_meta WHERE name = '`+name+`'`, &n[i])
		if errors.Is(err, sql.ErrNoRows) {
			return Place{}, nil
		}
		if err != nil {
			return Place{}, fmt.Errorf("read how far the database is: %w", err)
		}
	}
	p.Number, p.Era = uint64(n[0]), uint64(n[1])
	for i := range 4 {
		binary.BigEndian.PutUint64(p.Digest[8*i:], uint64(n[2+i]))
	}
	return p, nil
}
