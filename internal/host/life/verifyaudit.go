package life

import (
	"context"
	"errors"

	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/host/fsck"
	"gated/internal/log/archive"
	"gated/internal/log/audit"
	"gated/internal/log/checkpoint"
)

// AuditCheck is what the audit log is compared with, beside itself. The zero
// AuditCheck compares it with nothing else.
type AuditCheck struct {
	Kept     []KeptHead
	Progress func(done, of int64) // told every some thousand entries; may be nil
	Archive  string               // the directory with segment files; empty means the gate's own
	Recent   bool                 // of archived entries, check the hashes of their tiles alone
}

// KeptHead is a signed head that somebody kept, opened with its key.
type KeptHead struct {
	checkpoint.Checkpoint
	Key string
}

// AuditReport is the head of an audit log that is whole.
type AuditReport struct {
	Seq  int64  `json:"seq"`
	Hash string `json:"hash"`
	// Heads is how many of the kept heads are of this log. Others are of gate ids
	// that are not this gate's, or that it had before it was restored: what came
	// after a backup is rightly not in the log that goes on from it.
	Heads  int `json:"heads,omitzero"`
	Others int `json:"others,omitzero"`
	// Archived is up to which entry the log is in segment files, and NotRead up to which entry these were not read:
	// the hashes of their tiles alone are known to be right.
	Archived int64 `json:"archived,omitzero"`
	NotRead  int64 `json:"not_read,omitzero"`
}

// brokenHint says what to do about a log that is not what was written.
const brokenHint = "somebody changed the log; compare it with a backup and do not trust this gate's history"

// VerifyAudit is VerifyAuditWith the zero AuditCheck.
func VerifyAudit(ctx context.Context, stateDir string) (AuditReport, error) {
	return VerifyAuditWith(ctx, stateDir, AuditCheck{})
}

// VerifyAuditWith walks the whole audit log of a state directory, beside a running
// daemon. A log that is not whole, or of which a kept head is not, is a Conflict
// that names the entry; kept heads of which none is this gate's are UnknownTarget.
func VerifyAuditWith(ctx context.Context, stateDir string, c AuditCheck) (report AuditReport, err error) {
	o, err := look(ctx, stateDir)
	if err != nil {
		return report, err
	}
	dir := segmentsIn(stateDir, c.Archive)
	err = o.Store.View(ctx, func(tx *store.Tx) error {
		report, err = c.verify(tx, dir)
		return err
	})
	var broken *audit.BrokenError
	if errors.As(err, &broken) {
		err = refusal.New(refusal.Conflict, "%v", broken).WithHint(brokenHint)
	}
	return report, errors.Join(err, o.Close())
}

func (c AuditCheck) verify(tx *store.Tx, dir *archive.Dir) (report AuditReport, err error) {
	kept, err := c.ofThisGate(tx)
	if err != nil {
		return report, err
	}
	recorded, err := audit.ReadHead(tx)
	if err != nil {
		return report, err
	}
	bound, err := audit.Bound(tx)
	if err != nil {
		return report, err
	}
	check := audit.Checker{Kept: kept, Older: dir}
	if c.Recent {
		check.Older = nil
	}
	if c.Progress != nil {
		check.Progress = func(done int64) error { c.Progress(done, recorded.Seq); return nil }
	}
	head, err := check.Verify(tx)
	report = AuditReport{Seq: head.Seq, Hash: head.Hash, Heads: len(kept), Others: len(c.Kept) - len(kept), Archived: bound.Seq}
	if c.Recent {
		report.NotRead = bound.Seq
	}
	return report, err
}

// ofThisGate returns the heads of the gate id that signs now. One that another
// key signed for it is a Conflict.
func (c AuditCheck) ofThisGate(tx *store.Tx) ([]checkpoint.Checkpoint, error) {
	if len(c.Kept) == 0 {
		return nil, nil
	}
	signed, err := audit.SignedHead(tx)
	if err != nil {
		return nil, err
	}
	gate := signed.Gate
	var out []checkpoint.Checkpoint
	for _, k := range c.Kept {
		if k.Gate != gate {
			continue
		}
		if k.Key != signed.Key {
			return nil, refusal.New(refusal.Conflict,
				"a head of %d entries of gate %s was signed with another key than the log names", k.Size, gate).
				WithHint(brokenHint)
		}
		out = append(out, k.Checkpoint)
	}
	if len(out) == 0 {
		return nil, refusal.New(refusal.UnknownTarget, "none of the heads is of this gate, %q", gate).
			WithHint("a gate that was restored has a new id, and nothing of before can be compared with it; else it is the wrong file or the wrong --state")
	}
	return out, nil
}

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
func FsckTelling(ctx context.Context, stateDir string, progress func(part string, done, of int64)) (FsckReport, error) {
	return FsckWith(ctx, stateDir, "", progress)
}

// FsckWith is FsckTelling with the segment files of a directory; empty means the gate's own.
func FsckWith(ctx context.Context, stateDir, segments string, progress func(part string, done, of int64)) (FsckReport, error) {
	dir := segmentsIn(stateDir, segments)
	return fsckBy(ctx, stateDir, func(tx *store.Tx) (FsckReport, error) { return checkAll(tx, dir, progress) })
}

// FsckQuick checks the newest part of the state in a directory, as fsck.Checker.Quick
// says. It reads a bounded number of rows.
func FsckQuick(ctx context.Context, stateDir string) (FsckReport, error) {
	return fsckBy(ctx, stateDir, func(tx *store.Tx) (FsckReport, error) {
		c, err := checker(ctx, nil)
		if err != nil {
			return FsckReport{}, err
		}
		return c.Quick(tx, fsck.QuickBounds)
	})
}

// fsckBy is a check of the database, and whether it is this directory's.
func fsckBy(ctx context.Context, stateDir string, check func(*store.Tx) (FsckReport, error)) (report FsckReport, err error) {
	o, err := look(ctx, stateDir)
	if err != nil {
		return report, err
	}
	err = o.Store.View(ctx, func(tx *store.Tx) error {
		report, err = check(tx)
		return err
	})
	if err == nil {
		err = checkIdentity(ctx, o, &report)
	}
	return report, errors.Join(err, o.Close())
}

// checker is a check that knows this program's schema.
func checker(ctx context.Context, progress func(part string, done, of int64)) (fsck.Checker, error) {
	schema, err := store.Schema(ctx, Migrations())
	return fsck.Checker{Schema: schema, Progress: progress, Migrations: Migrations()}, err
}

// checkAll runs fsck on a database that has this program's schema. dir may be nil.
func checkAll(tx *store.Tx, dir *archive.Dir, progress func(part string, done, of int64)) (FsckReport, error) {
	c, err := checker(context.Background(), progress)
	if err != nil {
		return FsckReport{}, err
	}
	c.Archive = dir
	return c.Run(tx)
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
