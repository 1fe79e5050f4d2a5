package life

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"gated/internal/authz"
	"gated/internal/base/crashpoint"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/host/signers"
	"gated/internal/host/state"
	"gated/internal/log/audit"
	"gated/internal/nonce"
)

// RestoreResult says what was restored, and what became of what was there.
type RestoreResult struct {
	InitResult
	Kept  string // where the database that was there is now, "" if there was none
	Trust signers.RestoredTrust
	Clock *RestoredClock // nil where the backup's time does not contradict this machine's

	// Where the file of signers that was there is kept, if it did not say what is
	// in force now, and what became of its signers by that.
	KeptSigners string
	FileChanges []string
}

// Restore puts a backup in the place of a state directory's database. The
// daemon must not run. The gate gets a new id, so that nothing signed before
// counts; who may sign stays as it is where the database that was there knows
// better than the backup, and that database is kept. A backup that is damaged,
// not sound or another host's is refused, and one whose list of signers nothing
// here bears out is Conflict; nothing has changed then.
func Restore(ctx context.Context, file, stateDir string) (RestoreResult, error) {
	return restoreInto(ctx, stateDir, restoring{file: file})
}

// RestoreWithSigners is Restore by which the backup says who may sign, whatever
// the database that was there knows. One that has no list is BadParams.
func RestoreWithSigners(ctx context.Context, file, stateDir string) (RestoreResult, error) {
	return restoreInto(ctx, stateDir, restoring{file: file, signers: true})
}

// restoring is what is restored: a file, and its list of signers with it.
type restoring struct {
	file    string
	signers bool
}

func restoreInto(ctx context.Context, stateDir string, o restoring) (RestoreResult, error) {
	dir, err := openToRestore(stateDir)
	if err != nil {
		return RestoreResult{}, err
	}
	r, err := restore(ctx, dir, o)
	return r, errors.Join(err, dir.Close())
}

// openToRestore takes a directory that has a gate, or whose database is lost
// and whose configuration is there: a disk may have broken, or a restore may
// have been cut off.
func openToRestore(path string) (*state.Dir, error) {
	dir, err := state.Open(path, state.Options{})
	if !errors.Is(err, refusal.UnknownTarget) {
		return dir, err
	}
	if _, statErr := os.Stat(filepath.Join(path, state.SettingsName)); statErr != nil {
		return nil, err
	}
	return state.Init(path, state.Options{})
}

func restore(ctx context.Context, dir *state.Dir, o restoring) (RestoreResult, error) {
	c, err := Settings(dir.Path())
	if err != nil {
		return RestoreResult{}, err
	}
	id := state.Identity{Gate: state.NewGateID(), Host: c.Host}
	r := RestoreResult{InitResult: InitResult{StateDir: dir.Path(), Config: filepath.Join(dir.Path(), state.SettingsName),
		Signers: filepath.Join(dir.Path(), state.SignersName), Database: dir.Database(), Host: id.Host, GateID: id.Gate,
		SingleUser: c.SingleUser}}
	followed, err := finishAside(dir.Database())
	if err != nil {
		return r, err
	}
	if err := leftLedger(ctx, dir); err != nil {
		return r, err
	}
	was, err := lookBack(ctx, dir.Database())
	if err == nil {
		err = was.ReadFile(signers.NewFile(dir.Path()))
	}
	if err != nil {
		return r, err
	}
	fresh := dir.Database() + state.Restoring
	if err := dropCopies(dir); err != nil {
		return r, err
	}
	if err = prepare(ctx, o, fresh, id, was, &r); err == nil {
		crashpoint.Here(crashpoint.RestorePrepared)
		r.Kept, err = replaceDatabase(dir.Database(), fresh)
	}
	if err != nil { // whether the database is in its place or aside, the copy is not needed
		return r, errors.Join(err, dropCopies(dir))
	}
	r.Kept = cmp.Or(r.Kept, followed)
	s, err := store.Open(ctx, dir.Database(), store.Options{Migrations: Migrations()})
	if err != nil {
		return r, cannotOpen(ctx, dir.Database(), err)
	}
	crashpoint.Here(crashpoint.RestoreOpened)
	// Until the new id is bound no daemon starts on it: it belongs to no gate.
	if err = restoreSigners(ctx, s, &r); err == nil {
		crashpoint.Here(crashpoint.RestoreSignersPlaced)
		err = dir.Bind(ctx, s, id)
	}
	crashpoint.Here(crashpoint.RestoreBound)
	return r, errors.Join(err, s.Close(), dropCopies(dir))
}

// restoreSigners has the file of signers say what the restored database says. A
// file that says something else is kept beside it: somebody edited it, or the
// database that was there could not be read.
func restoreSigners(ctx context.Context, s *store.Store, r *RestoreResult) error {
	v, err := signers.Newest(ctx, s)
	if err != nil {
		return err
	}
	found, err := signers.NewFile(r.StateDir).Read()
	missing := errors.Is(err, fs.ErrNotExist)
	if err != nil && !missing {
		return err
	}
	text := v.Text
	if v.Epoch == 0 {
		text = found // from before there were versions: the next start takes the file as it is
	}
	trust, err := signers.Load(r.Signers, text)
	if err != nil {
		return err
	}
	r.Listed = trust.Signers()
	if v.Epoch == 0 || bytes.Equal(found, text) && !missing {
		return nil
	}
	if !missing {
		if r.KeptSigners, err = unused(r.Signers + state.BeforeRestore); err != nil {
			return err
		}
		if next, err := authz.LoadTrust(found); err == nil {
			r.FileChanges = signers.Compare(next, trust).Lines()
		}
		if err := os.Rename(r.Signers, r.KeptSigners); err != nil {
			return fmt.Errorf("keep the list of signers: %w", err)
		}
		crashpoint.Here(crashpoint.RestoreSignersKept)
	}
	return state.ReplaceFile(r.Signers, text)
}

// prepare copies a backup to fresh, checks the copy, writes into it what becomes
// of a restored gate, and says in r who may sign then and by which clock.
func prepare(ctx context.Context, o restoring, fresh string, id state.Identity, was signers.Former, r *RestoreResult) error {
	if _, _, err := lookAtBackup(o.file); err != nil {
		return notRestored(err)
	}
	if err := copyDatabase(o.file, fresh); err != nil {
		return err
	}
	crashpoint.Here(crashpoint.RestoreCopied)
	s, err := openCopy(ctx, o.file, fresh)
	if err != nil {
		return err
	}
	err = checkRestorable(ctx, s, o.file, id.Host)
	if err == nil {
		s.OnGroup(audit.Seal)
		err = s.Update(ctx, func(tx *store.Tx) (err error) {
			at := nonce.System()
			if r.Clock, err = restoredClock(tx, at.Wall); err != nil {
				return err
			}
			e := audit.Entry{Kind: audit.Restored, Gate: id.Gate, Detail: "from " + filepath.Base(o.file)}
			if err := newLife(tx, at, e, "the gate was restored, and does not know what became of it since"); err != nil {
				return err
			}
			if r.Trust, err = was.Carry(tx, id.Gate, at.Wall, o.signers); err != nil {
				return err
			}
			if err := tx.Leave(); err != nil { // it is a gate of its own, with an id that no ledger has
				return err
			}
			return state.Unbind(tx)
		})
	}
	if err = errors.Join(err, s.Close()); err == nil {
		err = folded(fresh)
	}
	return err
}

// folded refuses a closed database of which something is still in the log beside
// it: what takes its place is the database alone. A disk that fails while a
// database is closed leaves it so, and SQLite says nothing of that.
func folded(path string) error {
	info, err := os.Lstat(path + "-wal")
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Size() > 0:
		return refusal.New(refusal.Unavailable, "%s could not be written whole", path).
			WithHint("nothing was changed; see whether the disk works, and restore again")
	}
	return nil
}

// openCopy opens a copy of the backup file and brings it to this schema.
func openCopy(ctx context.Context, file, fresh string) (*store.Store, error) {
	s, err := store.Open(ctx, fresh, store.Options{Migrations: Migrations(), Leaves: true})
	if err != nil {
		return nil, notRestored(cannotRead(file, fresh, err))
	}
	return s, nil
}

// checkRestorable refuses a database that is damaged, not sound or another
// host's.
func checkRestorable(ctx context.Context, s *store.Store, file, host string) error {
	err := s.Check(ctx)
	if errors.Is(err, store.ErrCorrupt) {
		err = refusal.New(refusal.Conflict, "%s is damaged: %v", file, err)
	}
	if err == nil {
		err = s.View(ctx, func(tx *store.Tx) error {
			if err := soundCopy(tx); err != nil {
				return err
			}
			_, of, err := whose(tx)
			if err == nil && of != host {
				err = refusal.New(refusal.TargetMismatch, "the backup is of the host %q, and %s says %q",
					of, state.SettingsName, host).
					WithHint("nothing was changed; what the gate remembers is about the guests of that host")
			}
			return err
		})
	}
	return notRestored(err)
}

// notRestored adds to a refusal that nothing has changed.
func notRestored(err error) error {
	if r := (*refusal.Refusal)(nil); errors.As(err, &r) && r.Hint == "" {
		return r.WithHint("nothing was changed; restore another one")
	}
	return err
}
