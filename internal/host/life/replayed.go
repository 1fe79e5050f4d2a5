package life

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"gated/internal/base/store"
	"gated/internal/ledger"
)

// replayed makes a database of its own of what a ledger has, up to a number, and calls fn with it. It has this program's
// schema. Afterwards it is gone.
func replayed(ctx context.Context, s ledger.Settings, until uint64, passed func(number uint64), fn func(*store.Store) error) (err error) {
	dir, err := os.MkdirTemp("", "gated-replay-") // 0700
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	path := filepath.Join(dir, "replay.db")
	to := &stopping{Follower: ledger.Follower{Settings: s, Passed: passed}, until: until}
	r, err := store.Open(ctx, path, store.Options{Migrations: Migrations(), Keeper: to, Follows: true, Local: ledger.LocalNames()})
	if err != nil {
		return err
	}
	if err := r.Close(); err != nil {
		return err
	}
	// Without the Keeper it is brought from the schema of the groups to this program's.
	if r, err = store.Open(ctx, path, store.Options{Migrations: Migrations(), Leaves: true}); err != nil {
		return err
	}
	return errors.Join(fn(r), r.Close())
}

// stopping is a Follower that ends before the ledger does.
type stopping struct {
	ledger.Follower
	until uint64
}

// Begin does not compare how far the ledger is with a database that has nothing yet.
func (s *stopping) Begin(context.Context, store.Place) error { return nil }

// After leaves out what is behind the end. A base behind it is ErrBehind.
func (s *stopping) After(ctx context.Context, here store.Place) ([]store.Kept, error) {
	if here.Number >= s.until {
		return nil, nil
	}
	kept, err := s.Follower.After(ctx, here)
	for i, k := range kept {
		switch {
		case k.Number <= s.until:
		case k.Base:
			return nil, ledger.ErrBehind
		default:
			return kept[:i], nil
		}
	}
	return kept, err
}
