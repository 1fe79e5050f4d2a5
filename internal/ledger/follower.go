package ledger

import (
	"context"
	"errors"

	"gated/internal/base/store"
)

// ErrStandby is why a standby changes nothing: another daemon is the active one.
var ErrStandby = errors.New("this member is a standby, and another one decides")

// Follower reads the groups of a ledger for a standby's store, and keeps none. It implements store.Keeper.
type Follower struct {
	Settings // without Signer and Pause
	// Passed is told the number of the newest group that was read; nil is not.
	Passed func(number uint64)
}

// Begin checks that the ledger is the one that the database here knows. It begins no era.
func (f *Follower) Begin(ctx context.Context, here store.Place) error {
	_, err := f.known(ctx, here)
	return err
}

// After reads and checks groups after a place.
func (f *Follower) After(ctx context.Context, here store.Place) ([]store.Kept, error) {
	kept, err := Read(ctx, f.Engine, f.Gate, f.Verifier, here)
	if err == nil && len(kept) > 0 && f.Passed != nil {
		f.Passed(kept[len(kept)-1].Number)
	}
	return kept, err
}

// Seal refuses with ErrStandby.
func (f *Follower) Seal(int, []byte) (store.Place, error) { return store.Place{}, ErrStandby }

// Keep refuses with ErrStandby.
func (f *Follower) Keep() error { return ErrStandby }

// Settle has nothing to settle.
func (f *Follower) Settle(<-chan struct{}) (bool, error) { return false, ErrStandby }

var _ store.Keeper = (*Follower)(nil)
