package life

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"

	"gated/internal/authz"
	"gated/internal/base/ownfile"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/host/signers"
	"gated/internal/host/state"
	"gated/internal/log/audit"
	"gated/internal/log/journal"
)

// AdoptSigners makes a file the list of signers. The daemon must not run, and
// the caller is root, or the state directory's owner where agents have that uid
// anyway. The file has to be root's or that owner's. Refusals are those of
// signers.Adopt. A process of root's has the owner's uid from then on, so that
// what it writes is the daemon's to read.
func AdoptSigners(ctx context.Context, stateDir, file string, agree func(signers.Adoption) error) (signers.Adoption, error) {
	by := os.Geteuid()
	owner, err := mayChange(stateDir, by)
	if err != nil {
		return signers.Adoption{}, err
	}
	own := ownfile.StrictModes{UID: uint32(owner.uid)}
	file, err = filepath.Abs(file)
	if err != nil {
		return signers.Adoption{}, err
	}
	text, err := state.ReadBounded(own, file, authz.MaxTrust) // while it may be root's own
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return signers.Adoption{}, refusal.New(refusal.UnknownTarget, "there is no %s", file).
			WithHint("name the file that lists the signers; gated trust show prints the list in force")
	case err != nil && !errors.Is(err, refusal.NotAllowed):
		return signers.Adoption{}, refusal.New(refusal.BadParams, "%s cannot be read: %v", file, err)
	case err != nil:
		return signers.Adoption{}, err
	}
	if err := become(by, owner); err != nil {
		return signers.Adoption{}, err
	}
	o, err := Open(ctx, stateDir, slog.New(slog.DiscardHandler))
	if err != nil {
		return signers.Adoption{}, err
	}
	o.Store.OnGroup(audit.Seal)
	a, err := signers.Adopt(ctx, o.Store, o.ID.Gate, file, text, by, now(), agree)
	if err == nil && !a.Unedited {
		err = showAdopted(ctx, o, signers.FileOf(own, o.Dir.Path()), file, text)
	}
	return a, errors.Join(err, o.Close())
}

// showAdopted has the file of signers say what was adopted. The kept edit that
// was adopted goes first: another edit may take its place.
func showAdopted(ctx context.Context, o *Opened, f *signers.File, adopted string, text []byte) error {
	if adopted == f.Path() {
		return state.ReplaceFile(adopted, text) // its owner and mode are the daemon's then
	}
	if edit, kept := f.Edited(); kept && edit == adopted {
		if err := os.Remove(edit); err != nil {
			return err
		}
	}
	_, err := f.Show(ctx, o.Store, signers.Showing{Edited: func(v journal.TrustVersion) error {
		e := signers.EditedEntry(v)
		e.By, e.Gate, e.Time = signers.StateOwner, o.ID.Gate, now()
		return o.Store.Update(ctx, func(tx *store.Tx) error { _, err := audit.Append(tx, e); return err })
	}})
	return err
}

// owner is the user and group of a state directory.
type owner struct{ uid, gid int }

// mayChange refuses, as NotAllowed, a caller that is neither root nor, where
// agents run under the daemon's own uid, the owner: a daemon must not be able to
// take over what somebody made it write.
func mayChange(dir string, by int) (owner, error) {
	who, err := ownerOf(dir)
	if err != nil || by == 0 {
		return who, err
	}
	if by == who.uid {
		c, err := settingsOf(ownfile.StrictModes{UID: uint32(who.uid)}, dir)
		if err != nil || c.SingleUser {
			return who, err
		}
	}
	return who, refusal.New(refusal.NotAllowed, "root alone adopts a list of signers").
		WithHint("do this as root; or have operators sign a rotation: gated trust rotate")
}

// ownerOf returns the owner of a state directory.
func ownerOf(dir string) (owner, error) {
	info, err := os.Lstat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return owner{}, refusal.New(refusal.UnknownTarget, "there is no gate in %s", dir).
			WithHint("name its directory with --state")
	}
	if err != nil {
		return owner{}, refusal.New(refusal.NotAllowed, "the state directory cannot be looked at: %v", err).
			WithHint("do this as root")
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !info.IsDir() {
		return owner{}, refusal.New(refusal.NotAllowed, "%s is not a directory", dir).
			WithHint("name the gate's directory with --state")
	}
	return owner{int(st.Uid), int(st.Gid)}, nil
}

// become gives up root's uid for good, for that of the owner.
func become(by int, who owner) error {
	if by == who.uid {
		return nil
	}
	err := errors.Join(syscall.Setgroups([]int{who.gid}), syscall.Setresgid(who.gid, who.gid, who.gid))
	if err == nil {
		err = syscall.Setresuid(who.uid, who.uid, who.uid)
	}
	if err != nil {
		return fmt.Errorf("become uid %d: %w", who.uid, err)
	}
	return nil
}
