package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"path/filepath"
	"strconv"

	"gated/internal/audit"
	"gated/internal/fsck"
	"gated/internal/op"
	"gated/internal/state"
	"gated/internal/store"
)

// FsckReport is what was checked and what was found.
type FsckReport = fsck.Report

// Problem is one place where a rule does not hold.
type Problem = fsck.Problem

// Fsck checks the state in a directory. It only reads, and works beside a
// running daemon.
func Fsck(ctx context.Context, stateDir string) (report FsckReport, err error) {
	o, err := look(ctx, stateDir)
	if err != nil {
		return report, err
	}
	err = o.store.View(ctx, func(tx *store.Tx) error {
		report, err = fsck.Run(tx)
		return err
	})
	return report, errors.Join(err, o.close())
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

// Restore puts a backup in the place of a state directory's database. The
// daemon must not run. The gate gets a new id, so that nothing signed before
// counts; the database that was there is kept beside it.
func Restore(ctx context.Context, file, stateDir string) (InitResult, error) {
	dir, err := state.Open(stateDir, state.Options{})
	if err != nil {
		return InitResult{}, err
	}
	r, err := restore(ctx, dir, file)
	return r, errors.Join(err, dir.Close())
}

func restore(ctx context.Context, dir *state.Dir, file string) (InitResult, error) {
	c, trust, err := settings(dir.Path())
	if err != nil {
		return InitResult{}, err
	}
	fresh := dir.Database() + ".restoring"
	if err := copyNew(file, fresh); err != nil {
		return InitResult{}, err
	}
	defer os.Remove(fresh)
	if err := checkBackup(ctx, fresh); err != nil {
		return InitResult{}, err
	}
	if err := replaceDatabase(dir.Database(), fresh); err != nil {
		return InitResult{}, err
	}
	s, err := store.Open(ctx, dir.Database(), store.Options{Migrations: migrations()})
	if err != nil {
		return InitResult{}, cannotOpen(err)
	}
	id, err := restored(ctx, dir, s, state.Identity{Host: c.Host}, "from "+filepath.Base(file))
	return InitResult{StateDir: dir.Path(), Config: filepath.Join(dir.Path(), configName),
		Signers: filepath.Join(dir.Path(), signersName), Database: dir.Database(), Host: id.Host, GateID: id.Gate,
		SingleUser: c.SingleUser, Listed: trust.Signers()}, errors.Join(err, s.Close())
}

// checkBackup refuses a file that is not a sound gate database.
func checkBackup(ctx context.Context, path string) error {
	s, err := store.OpenReadOnly(ctx, path, store.Options{Migrations: migrations()})
	if err != nil {
		return cannotOpen(err)
	}
	err = s.View(ctx, func(tx *store.Tx) error {
		report, err := fsck.Run(tx)
		if err == nil && !report.Sound {
			p := report.Problems[0]
			err = op.Refuse(op.Conflict, "the backup is not sound: %s: %s: %s", p.Rule, p.Where, p.Detail).
				WithHint("nothing was changed; restore another one")
		}
		return err
	})
	return errors.Join(err, s.Close())
}

// replaceDatabase keeps the database as <name>.before-restore and puts fresh in
// its place.
func replaceDatabase(path, fresh string) error {
	old := path + ".before-restore"
	for _, suffix := range []string{"", "-wal", "-shm"} {
		err := os.Rename(path+suffix, old+suffix)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("keep the old database: %w", err)
		}
	}
	return os.Rename(fresh, path)
}

func copyNew(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return op.Refuse(op.BadParams, "the backup cannot be read: %v", err)
	}
	defer in.Close()
	_ = os.Remove(to)
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Sync(), out.Close())
}

// runsAsService reports whether this process has the uid of the account that is
// the daemon's own.
func runsAsService() bool {
	u, err := user.Lookup(serviceUser)
	return err == nil && u.Uid == strconv.Itoa(os.Geteuid())
}
