package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// mayOpen refuses to open a database without a Keeper that has met one.
func (s *Store) mayOpen(with *session) error {
	if s.keeper != nil || s.leaves {
		return nil
	}
	here, err := with.place()
	if err == nil && here.Number > 0 {
		err = ErrNeedsKeeper
	}
	return err
}

// catchUp brings the database to the newest group that the Keeper has. The groups may go through several schemas; each
// begins with the migrations to it.
func (s *Store) catchUp(ctx context.Context) error {
	version, err := readVersion(ctx, s.path)
	if err != nil {
		return err
	}
	var here Place
	if version > 0 {
		if here, err = placeOf(ctx, s.path); err != nil {
			return err
		}
	}
	if err := s.keeper.Begin(ctx, here); err != nil {
		return err
	}
	_, err = s.replay(ctx, here, version)
	return err
}

// replay applies the groups after a place to a database of a schema version, and returns the place after them.
func (s *Store) replay(ctx context.Context, here Place, version int) (Place, error) {
	list := s.migrations
	for {
		kept, err := s.keeper.After(ctx, here)
		if err != nil || len(kept) == 0 {
			return here, err
		}
		n := slices.IndexFunc(kept, func(k Kept) bool { return k.Schema != kept[0].Schema })
		if n >= 0 {
			kept = kept[:n]
		}
		switch schema := kept[0].Schema; {
		case schema > len(list):
			return here, &TooNewError{Have: schema, Want: len(list)}
		case schema < max(version, 1):
			return here, fmt.Errorf("%w: group %d has schema %d, and the database has %d", ErrDiverged, kept[0].Number, schema, version)
		case schema > version:
			if err := s.prepare(ctx, list[:schema]); err != nil {
				return here, err
			}
			version = schema
		}
		if here, err = s.apply(kept); err != nil {
			return here, err
		}
	}
}

// Follow applies the groups that the Keeper has and the database lacks, for a store that was opened with Follows. It
// returns how far the database is, and is for one goroutine.
func (s *Store) Follow(ctx context.Context) (Place, error) {
	version, err := readVersion(ctx, s.path)
	if err != nil {
		return Place{}, err
	}
	was, err := placeOf(ctx, s.path)
	if err != nil {
		return Place{}, err
	}
	here, err := s.replay(ctx, was, version)
	if here != was {
		s.tellCommitted()
	}
	return here, err
}

// apply applies groups that the database lacks.
func (s *Store) apply(kept []Kept) (_ Place, err error) {
	a, err := openApplier(s.path, s.local)
	if err != nil {
		return Place{}, err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	if err := a.Apply(kept); err != nil {
		return Place{}, err
	}
	return a.place, nil
}

// placeOf reads how far a database is, on a connection that cannot write.
func placeOf(ctx context.Context, path string) (_ Place, err error) {
	s, err := openSession(ctx, path, probe)
	if err != nil {
		return Place{}, fmt.Errorf("open %s: %w", path, err)
	}
	defer func() { err = errors.Join(err, s.close()) }()
	return s.place()
}

// Place returns how far the database is in the groups of a Keeper, the zero Place if it is in none.
func (s *Store) Place(ctx context.Context) (p Place, err error) {
	err = s.View(ctx, func(tx *Tx) error {
		p, err = tx.s.place()
		return err
	})
	return p, err
}
