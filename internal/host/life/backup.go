package life

import (
	"context"
	"errors"

	"gated/internal/base/store"
	"gated/internal/host/state"
)

// Backup writes a consistent copy of the database of a state directory to file,
// beside a running daemon or without one. The file must not exist, or be empty.
// The copy may have an older schema, because a gate is also copied before a newer
// version has migrated it. CheckBackup says whether it is whole. Refusals: those
// of a state directory that cannot be read, SchemaTooNew.
func Backup(ctx context.Context, stateDir, file string) error {
	dir, err := state.Look(stateDir, state.Options{})
	if err != nil {
		return err
	}
	err = reading(ctx, dir, func(s *store.Store) error { return s.Snapshot(ctx, file) })
	return errors.Join(err, dir.Close())
}
