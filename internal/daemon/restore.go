package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"gated/internal/audit"
	"gated/internal/authz"
	"gated/internal/crashpoint"
	"gated/internal/fsck"
	"gated/internal/op"
	"gated/internal/state"
	"gated/internal/store"
)

// restoringExt and keptExt end the names of the database that a restore makes
// ready and of the one that it found.
const (
	restoringExt = ".restoring"
	keptExt      = ".before-restore"
)

// Restore puts a backup in the place of a state directory's database. The
// daemon must not run. The gate gets a new id, so that nothing signed before
// counts; the database that was there is kept beside it. A backup that is
// damaged, not sound or another host's is refused, and nothing has changed.
func Restore(ctx context.Context, file, stateDir string) (InitResult, error) {
	dir, err := openToRestore(stateDir)
	if err != nil {
		return InitResult{}, err
	}
	r, err := restore(ctx, dir, file)
	return r, errors.Join(err, dir.Close())
}

// openToRestore takes a directory that has a gate, or whose database is lost
// and whose configuration is there: a disk may have broken, or a restore may
// have been cut off.
func openToRestore(path string) (*state.Dir, error) {
	dir, err := state.Open(path, state.Options{})
	if !errors.Is(err, op.UnknownTarget) {
		return dir, err
	}
	if _, statErr := os.Stat(filepath.Join(path, configName)); statErr != nil {
		return nil, err
	}
	return state.Init(path, state.Options{})
}

func restore(ctx context.Context, dir *state.Dir, file string) (InitResult, error) {
	c, err := settings(dir.Path())
	if err != nil {
		return InitResult{}, err
	}
	id := state.Identity{Gate: state.NewGateID(), Host: c.Host}
	fresh := dir.Database() + restoringExt
	if err := dropCopies(dir); err != nil {
		return InitResult{}, err
	}
	if err = prepare(ctx, file, fresh, id); err == nil {
		crashpoint.Here(crashpoint.RestorePrepared)
		err = replaceDatabase(dir.Database(), fresh)
	}
	if err != nil {
		return InitResult{}, errors.Join(err, dropCopies(dir))
	}
	s, err := store.Open(ctx, dir.Database(), store.Options{Migrations: Migrations()})
	if err != nil {
		return InitResult{}, cannotOpen(dir.Database(), err)
	}
	crashpoint.Here(crashpoint.RestoreOpened)
	r := InitResult{StateDir: dir.Path(), Config: filepath.Join(dir.Path(), configName),
		Signers: filepath.Join(dir.Path(), signersName), Database: dir.Database(), Host: id.Host, GateID: id.Gate,
		SingleUser: c.SingleUser}
	// Until the new id is bound no daemon starts on it: it is bound to another file.
	if err = restoreSigners(ctx, s, &r); err == nil {
		crashpoint.Here(crashpoint.RestoreSignersPlaced)
		err = dir.Bind(ctx, s, id)
	}
	crashpoint.Here(crashpoint.RestoreBound)
	return r, errors.Join(err, s.Close())
}

// restoreSigners has the file of signers say what the restored database says. A
// file that says something else is kept beside it: keys may have come and gone
// since the backup was made, and only people know which are right.
func restoreSigners(ctx context.Context, s *store.Store, r *InitResult) error {
	v, err := readVersions(ctx, s)
	if err != nil {
		return err
	}
	f := &signersFile{path: r.Signers}
	found, err := f.read()
	missing := errors.Is(err, fs.ErrNotExist)
	if err != nil && !missing {
		return err
	}
	text := v.newest.Text
	if v.newest.Epoch == 0 {
		text = found // from before there were versions: the next start takes the file as it is
	}
	trust, err := loadTrust(r.Signers, text)
	if err != nil {
		return err
	}
	r.Listed = trust.Signers()
	if v.newest.Epoch == 0 || bytes.Equal(found, text) && !missing {
		return nil
	}
	if !missing {
		if r.KeptSigners, err = unused(r.Signers + keptExt); err != nil {
			return err
		}
		if next, err := authz.LoadTrust(found); err == nil {
			r.Changes = compare(next, trust).lines()
		}
		if err := os.Rename(r.Signers, r.KeptSigners); err != nil {
			return fmt.Errorf("keep the list of signers: %w", err)
		}
		crashpoint.Here(crashpoint.RestoreSignersKept)
	}
	return replaceFile(r.Signers, text)
}

// prepare copies a backup to fresh, checks the copy, and writes into it what
// becomes of a restored gate.
func prepare(ctx context.Context, file, fresh string, id state.Identity) error {
	// A database that was put aside has its newest entries in the file beside it.
	for _, suffix := range []string{"", "-wal"} {
		err := copyNew(file+suffix, fresh+suffix)
		if err != nil && (suffix == "" || !errors.Is(err, fs.ErrNotExist)) {
			return op.Refuse(op.BadParams, "the backup %s cannot be read: %v", file, err)
		}
	}
	crashpoint.Here(crashpoint.RestoreCopied)
	s, err := store.Open(ctx, fresh, store.Options{Migrations: Migrations()})
	if errors.Is(err, store.ErrCorrupt) {
		return op.Refuse(op.Conflict, "%s is damaged, or no backup of a gate: %v", file, err).
			WithHint("nothing was changed; restore another one")
	}
	if err != nil {
		return cannotOpen(file, err)
	}
	err = checkBackup(ctx, s, id.Host)
	if err == nil {
		err = restored(ctx, s, id.Gate, "from "+filepath.Base(file))
	}
	return errors.Join(err, s.Close())
}

// checkBackup refuses a database that is not sound or that is another host's.
func checkBackup(ctx context.Context, s *store.Store, host string) error {
	return s.View(ctx, func(tx *store.Tx) error {
		report, err := fsck.Run(tx)
		if err != nil {
			return err
		}
		if !report.Sound {
			p := report.Problems[0]
			return op.Refuse(op.Conflict, "the backup is not sound: %s: %s: %s", p.Rule, p.Where, p.Detail).
				WithHint("nothing was changed; restore another one")
		}
		var of string
		if err := tx.QueryRow(`SELECT host FROM gate_identity`).Scan(&of); err != nil {
			return op.Refuse(op.Conflict, "the backup does not say whose it is: %v", err).WithHint("nothing was changed; restore another one")
		}
		if of != host {
			return op.Refuse(op.TargetMismatch, "the backup is of the host %q, and %s says %q", of, configName, host).
				WithHint("nothing was changed; what the gate remembers is about the guests of that host")
		}
		return nil
	})
}

// restored writes what becomes of a restored database, which the new gate id
// begins a new life for.
func restored(ctx context.Context, s *store.Store, id op.GateID, detail string) error {
	s.OnGroup(audit.Seal)
	return s.Update(ctx, func(tx *store.Tx) error {
		return newLife(tx, audit.Entry{Kind: audit.Restored, Gate: id, Detail: detail, Time: now()},
			"the gate was restored, and does not know what became of it since")
	})
}

// replaceDatabase keeps the database under a name of its own and puts fresh in
// its place. Cut off in between, it leaves no database, which nothing starts
// on and Restore begins again with.
func replaceDatabase(path, fresh string) error {
	old, err := unused(path + keptExt)
	if err != nil {
		return err
	}
	// The database goes before its log, without which it would start as if the
	// newest decisions had never been; and the log before the new database, to
	// which SQLite would apply it.
	for _, suffix := range []string{"", "-wal", "-shm"} {
		err := os.Rename(path+suffix, old+suffix)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("keep the old database: %w", err)
		}
		crashpoint.Here(crashpoint.RestoreAside)
	}
	crashpoint.Here(crashpoint.RestoreEmpty)
	if err := os.Rename(fresh, path); err != nil {
		return fmt.Errorf("put the backup in place (the old database is %s): %w", old, err)
	}
	crashpoint.Here(crashpoint.RestorePlaced)
	return syncDir(filepath.Dir(path))
}

// unused returns path, or path with the first number that makes it a name that
// neither a database nor a log of one has.
func unused(path string) (string, error) {
	for i, name := 2, path; ; i++ {
		taken := false
		for _, suffix := range []string{"", "-wal", "-shm"} {
			_, err := os.Lstat(name + suffix)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return "", err
			}
			taken = taken || err == nil
		}
		if !taken {
			return name, nil
		}
		name = path + "-" + strconv.Itoa(i)
	}
}

func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// copyNew copies a file to one that must not exist, 0600 and on disk.
func copyNew(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Sync(), out.Close())
}
