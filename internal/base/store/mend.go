package store

import (
	"context"
	"errors"
	"fmt"
)

// mendVersion is checkVersion for the one process that writes. First it undoes a change that was cut off while the
// database was made, before it had a WAL. Without that, no process could ever open the database again.
func mendVersion(ctx context.Context, path string, list []Migration) error {
	err := checkVersion(ctx, path, list)
	if !cutOff(err) {
		return err
	}
	s, err := openSession(ctx, path, mending)
	if err != nil {
		return fmt.Errorf("open %s: %w", path, err)
	}
	var tables int
	err = s.one(ctx, "SELECT count(*) FROM sqlite_schema", &tables)
	if err := errors.Join(err, s.close()); err != nil {
		return fmt.Errorf("undo what was cut off in %s: %w", path, describeOpen(err))
	}
	return checkVersion(ctx, path, list)
}
