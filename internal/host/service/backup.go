package service

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"

	"gated/internal/base/crashpoint"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/gate"
	"gated/internal/host/state"
	"gated/internal/log/journal"
)

// Backup streams consistent copies of the database, and remembers the newest.
type Backup struct {
	gate  *gate.Gate
	store *store.Store
	dir   string // the state directory; a copy is made there first
	log   *slog.Logger
}

// NewBackup returns copies of a gate's store, made first in the state directory dir.
func NewBackup(g *gate.Gate, s *store.Store, dir string, log *slog.Logger) Backup {
	return Backup{g, s, dir, log}
}

// Backup writes a consistent copy of the database to w. It is Unavailable, before the first byte, if the copy cannot be
// made. If it cannot be recorded afterwards, only the log says so: the copy is whole.
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
	sum, at := sha256.New(), b.gate.Moment().Now
	_, err = io.Copy(io.MultiWriter(w, sum), f)
	crashpoint.Here(crashpoint.BackupStreamed)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := b.store.Update(ctx, func(tx *store.Tx) error {
		return journal.AddBackup(tx, hex.EncodeToString(sum.Sum(nil)), at)
	}); err != nil {
		b.log.Warn("a backup was handed out and cannot be recorded", "error", err)
	}
	return nil
}

// Verified records that the taker of a copy with this hex SHA-256 has checked it. It is UnknownTarget if the gate knows
// of no such copy.
func (b Backup) Verified(ctx context.Context, sha256 string) error {
	return b.gate.Answer(b.store.Update(ctx, func(tx *store.Tx) error { return journal.VerifyBackup(tx, sha256) }))
}

// noCopy says why no copy was made, and how much room it needs.
func noCopy(err error) error {
	return refusal.New(refusal.Unavailable, "the copy cannot be made: %v", err).
		WithHint("it is made in the state directory first, and needs as much room there as the database has")
}
