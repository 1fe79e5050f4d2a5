package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// mayOpen refuses to open a database without a Keeper that has met one.
func (s *Store) mayOpen(with *session) error {
	if s.keeper != nil {
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
func (s *Store) catchUp(ctx context.Context, list []Migration) error {
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
	for {
		kept, err := s.keeper.After(ctx, here)
		if err != nil || len(kept) == 0 {
			return err
		}
		n := slices.IndexFunc(kept, func(k Kept) bool { return k.Schema != kept[0].Schema })
		if n >= 0 {
			kept = kept[:n]
		}
		switch schema := kept[0].Schema; {
		case schema > len(list):
			return &TooNewError{Have: schema, Want: len(list)}
		case schema < max(version, 1):
			return fmt.Errorf("%w: group %d has schema %d, and the database has %d", ErrDiverged, kept[0].Number, schema, version)
		case schema > version:
			if err := s.prepare(ctx, list[:schema]); err != nil {
				return err
			}
			version = schema
		}
		if here, err = s.apply(kept); err != nil {
			return err
		}
	}
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
