package life

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/host/state"
	"gated/internal/log/evidence"
)

// EvidenceFrom says what evidence is made from.
type EvidenceFrom struct {
	State   string // the state directory, which is read beside a running daemon
	Backup  string // a backup to read in the state directory's place
	Archive string // the directory with segment files; empty means the gate's own
	KeyFile string // the gate's key; empty means that of the state directory, and none for a backup
	Kept    []evidence.Kept
}

// EvidenceOf makes evidence of a job, or of the one step of it that id names with an index, as evidence.Maker.Job.
func EvidenceOf(ctx context.Context, from EvidenceFrom, id op.StepID) (docs []evidence.Document, err error) {
	return docs, making(ctx, from, func(tx *store.Tx, m evidence.Maker) error {
		docs, err = m.Job(tx, id.Job, id.Index)
		return err
	})
}

// EvidenceBetween makes evidence of the steps that ended between two times, as evidence.Maker.Range.
func EvidenceBetween(ctx context.Context, from EvidenceFrom, since, until time.Time) (docs []evidence.Document, err error) {
	return docs, making(ctx, from, func(tx *store.Tx, m evidence.Maker) error {
		docs, err = m.Range(tx, since, until)
		return err
	})
}

// EvidenceReport lists the steps that ended between two times, as evidence.Maker.Report.
func EvidenceReport(ctx context.Context, from EvidenceFrom, since, until time.Time) (steps []evidence.Step, err error) {
	return steps, making(ctx, from, func(tx *store.Tx, m evidence.Maker) error {
		steps, err = m.Report(tx, since, until)
		return err
	})
}

// making calls do with what makes evidence, in one transaction that only reads.
func making(ctx context.Context, from EvidenceFrom, do func(*store.Tx, evidence.Maker) error) error {
	m := evidence.Maker{Archive: segmentsIn(from.State, from.Archive), Kept: from.Kept}
	path := from.KeyFile
	if path == "" && from.Backup == "" {
		path = filepath.Join(from.State, state.KeyName)
	}
	if path != "" {
		key, err := ReadKey(path)
		if err != nil && (from.KeyFile != "" || !errors.Is(err, os.ErrNotExist)) {
			return refusal.New(refusal.NotAllowed, "the gate's key cannot be read: %v", err)
		}
		if err == nil {
			m.Key = &key
		}
	}
	read := func(tx *store.Tx) (err error) {
		if _, m.Host, err = whose(tx); err != nil {
			return err
		}
		return do(tx, m)
	}
	if from.Backup == "" {
		return viewing(ctx, from.State, read)
	}
	return viewingBackup(ctx, from.Backup, read)
}

// viewingBackup reads a backup of this program's schema where it is.
func viewingBackup(ctx context.Context, file string, do func(*store.Tx) error) error {
	r, inPlace, err := lookAtBackup(file)
	if err != nil {
		return err
	}
	if !inPlace {
		return refusal.New(refusal.Unavailable, "the backup %s has schema %d, and this gated reads backups of schema %d in their place", file, r.Schema,
			len(Migrations())).WithHint("restore it beside the gate, into a directory of its own, and read that with --state")
	}
	s, err := store.OpenReadOnly(ctx, file, store.Options{Migrations: Migrations()})
	if err != nil {
		return cannotOpen(ctx, file, err)
	}
	return errors.Join(s.View(ctx, do), s.Close())
}
