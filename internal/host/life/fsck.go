package life

import (
	"context"
	"errors"

	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/host/fsck"
)

// FsckReport is what was checked and what was found.
type FsckReport = fsck.Report

// Problem is one place where a rule does not hold.
type Problem = fsck.Problem

// Fsck checks the state in a directory. It only reads, and works beside a
// running daemon.
func Fsck(ctx context.Context, stateDir string) (FsckReport, error) {
	return FsckTelling(ctx, stateDir, nil)
}

// FsckTelling is Fsck with somebody who is told how far it is, as
// fsck.Checker.Progress says.
func FsckTelling(ctx context.Context, stateDir string, progress func(part string, done, of int64)) (report FsckReport, err error) {
	o, err := look(ctx, stateDir)
	if err != nil {
		return report, err
	}
	err = o.Store.View(ctx, func(tx *store.Tx) error {
		report, err = checkAll(tx, progress)
		return err
	})
	if err == nil {
		err = checkIdentity(ctx, o, &report)
	}
	return report, errors.Join(err, o.Close())
}

// checkAll runs fsck on a database that has this program's schema.
func checkAll(tx *store.Tx, progress func(part string, done, of int64)) (FsckReport, error) {
	schema, err := store.Schema(context.Background(), Migrations())
	if err != nil {
		return FsckReport{}, err
	}
	return fsck.Checker{Schema: schema, Progress: progress}.Run(tx)
}

// checkIdentity adds to a report that the database is not the one that was
// bound to this directory.
func checkIdentity(ctx context.Context, o *Opened, report *FsckReport) error {
	_, err := o.Dir.Check(ctx, o.Store)
	if errors.Is(err, refusal.TargetMismatch) || errors.Is(err, refusal.Conflict) {
		report.Add(fsck.CopyBound, o.Dir.Database(), "%s", refusal.As(err).Detail)
		return nil
	}
	return err
}
