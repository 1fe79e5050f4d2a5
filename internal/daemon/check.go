package daemon

import (
	"context"
	"errors"

	"gated/internal/audit"
	"gated/internal/fsck"
	"gated/internal/op"
	"gated/internal/store"
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
	err = o.store.View(ctx, func(tx *store.Tx) error {
		report, err = checkAll(tx, progress)
		return err
	})
	if err == nil {
		err = checkIdentity(ctx, o, &report)
	}
	return report, errors.Join(err, o.close())
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
func checkIdentity(ctx context.Context, o *opened, report *FsckReport) error {
	_, err := o.dir.Check(ctx, o.store)
	if errors.Is(err, op.TargetMismatch) || errors.Is(err, op.Conflict) {
		report.Add(fsck.CopyBound, o.dir.Database(), "%s", op.AsRefusal(err).Detail)
		return nil
	}
	return err
}

// AuditReport is the head of an audit log that is whole.
type AuditReport struct {
	Seq  int64  `json:"seq"`
	Hash string `json:"hash"`
}

// VerifyAudit walks the whole audit log of a state directory, beside a running
// daemon. A log that is not whole is a Conflict that names the entry.
func VerifyAudit(ctx context.Context, stateDir string) (AuditReport, error) {
	o, err := look(ctx, stateDir)
	if err != nil {
		return AuditReport{}, err
	}
	var head audit.Head
	err = o.store.View(ctx, func(tx *store.Tx) error {
		head, err = audit.Verify(tx, nil)
		return err
	})
	var broken *audit.BrokenError
	if errors.As(err, &broken) {
		err = op.Refuse(op.Conflict, "%v", broken).WithHint("somebody changed the log; compare it with a backup and do not trust this gate's history")
	}
	return AuditReport(head), errors.Join(err, o.close())
}
