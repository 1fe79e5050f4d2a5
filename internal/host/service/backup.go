package service

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"

	"gated/internal/base/crashpoint"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/host/state"
)

// Backup streams consistent copies of the database.
type Backup struct {
	store *store.Store
	dir   string // the state directory; a copy is made there first
}

// NewBackup returns copies of a store, made first in the state directory dir.
func NewBackup(s *store.Store, dir string) Backup { return Backup{s, dir} }

// Backup writes a consistent copy of the database to w. It is Unavailable, before the first byte, if the copy cannot be
// made.
func (b Backup) Backup(ctx context.Context, w io.Writer) error {
	tmp, err := os.MkdirTemp(b.dir, state.BackupPrefix) // 0700
	if err != nil {
		return noCopy(err)
	}
	defer os.RemoveAll(tmp)
	path := filepath.Join(tmp, state.DatabaseName)
	if err := b.store.Snapshot(ctx, path); err != nil {
		return noCopy(err)
	}
	crashpoint.Here(crashpoint.BackupCopied)
	f, err := os.Open(path)
	if err != nil {
		return noCopy(err)
	}
	_, err = io.Copy(w, f)
	crashpoint.Here(crashpoint.BackupStreamed)
	return errors.Join(err, f.Close())
}

// noCopy says why no copy was made, and how much room it needs.
func noCopy(err error) error {
	return refusal.New(refusal.Unavailable, "the copy cannot be made: %v", err).
		WithHint("it is made in the state directory first, and needs as much room there as the database has")
}
