package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"gated/internal/audit"
	"gated/internal/authz"
	"gated/internal/journal"
	"gated/internal/op"
	"gated/internal/ownfile"
	"gated/internal/store"
)

// Adoption is an edit of the list of signers that is, or was, taken over.
type Adoption struct {
	File    string
	Epoch   int64     // that it makes; of an Unedited file, the one in force
	Digest  string    // SHA-256 of the file, lower-case hex
	Changes []string  // what it adds (+) and removes (-), without keys
	Emptied []op.Role // in which somebody could sign, and nobody could any more

	Unedited bool // the file is as the gate wrote it, and nothing was done
}

// AdoptSigners takes the list of signers over as somebody edited it. The daemon
// must not run, and the caller is root, or the directory's owner where agents
// have that uid anyway. A file by which nobody could sign as operational is
// BadParams. agree is asked with what would change; its error is returned, and
// nothing has changed then. A process of root's has the owner's uid from then
// on, so that what it writes is the daemon's to read.
func AdoptSigners(ctx context.Context, stateDir string, agree func(Adoption) error) (Adoption, error) {
	by := os.Geteuid()
	owner, err := mayAdopt(stateDir, by)
	if err != nil {
		return Adoption{}, err
	}
	f := &signersFile{path: filepath.Join(stateDir, signersName), own: ownfile.StrictModes{UID: uint32(owner.uid)}}
	text, err := f.read() // while it may be root's own, as editors leave it
	if errors.Is(err, fs.ErrNotExist) {
		return Adoption{}, op.Refuse(op.UnknownTarget, "there is no %s", f.path).WithHint("gated serve writes it anew when it starts")
	}
	if err != nil {
		return Adoption{}, err
	}
	if err := become(by, owner); err != nil {
		return Adoption{}, err
	}
	o, err := open(ctx, stateDir, slog.New(slog.DiscardHandler))
	if err != nil {
		return Adoption{}, err
	}
	a, err := adopt(ctx, o, f, text, by, agree)
	return a, errors.Join(err, o.close())
}

// owner is who has a state directory.
type owner struct{ uid, gid int }

// mayAdopt refuses, as NotAllowed, who is neither root nor, where agents run
// under the daemon's own uid, the owner: a daemon must not be able to take over
// what somebody made it write.
func mayAdopt(dir string, by int) (owner, error) {
	info, err := os.Lstat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return owner{}, op.Refuse(op.UnknownTarget, "there is no gate in %s", dir).WithHint("name its directory with --state")
	}
	if err != nil {
		return owner{}, op.Refuse(op.NotAllowed, "the state directory cannot be looked at: %v", err).WithHint("do this as root")
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !info.IsDir() {
		return owner{}, op.Refuse(op.NotAllowed, "%s is not a directory", dir).WithHint("name the gate's directory with --state")
	}
	who := owner{int(st.Uid), int(st.Gid)}
	if by == 0 {
		return who, nil
	}
	if by == who.uid {
		c, err := settingsOf(ownfile.StrictModes{UID: uint32(who.uid)}, dir)
		if err != nil || c.SingleUser {
			return who, err
		}
	}
	return who, op.Refuse(op.NotAllowed, "an edit of the signers is taken over by root alone").
		WithHint("do this as root; or leave the edit, and have operators sign a rotation: gated trust rotate")
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

func adopt(ctx context.Context, o *opened, f *signersFile, text []byte, by int, agree func(Adoption) error) (Adoption, error) {
	v, err := readVersions(ctx, o.store)
	if err != nil {
		return Adoption{}, err
	}
	next, err := loadTrust(f.path, text)
	if err != nil {
		return Adoption{}, err
	}
	a := Adoption{File: f.path, Epoch: v.newest.Epoch, Digest: next.Digest(), Changes: []string{}, Emptied: []op.Role{}}
	was, err := loadTrust("the list of signers in the database", v.newest.Text)
	if err != nil {
		return a, err
	}
	if a.Unedited = v.newest.Epoch > 0 && a.Digest == was.Digest(); a.Unedited {
		return a, nil
	}
	at := now()
	if len(next.Could(op.Operational, op.TouchNone, at)) == 0 {
		return a, noOperator(f.path)
	}
	c := compare(was, next)
	a.Epoch, a.Changes, a.Emptied = v.newest.Epoch+1, c.lines(), emptied(was, next, at)
	if err := agree(a); err != nil {
		return a, err
	}
	h := held{trust: next, v: journal.TrustVersion{Epoch: a.Epoch, Text: text, How: fmt.Sprintf(howByRoot, by), At: at}}
	o.store.OnGroup(audit.Seal)
	err = o.store.Update(ctx, func(tx *store.Tx) error { return h.record(tx, fmt.Sprintf("uid:%d", by), o.id.Gate, c) })
	if err != nil {
		return a, err
	}
	return a, replaceFile(f.path, text) // its owner and mode are the daemon's then
}

// noOperator refuses a file by which no destructive step could be approved any
// more: a list that was cut off looks like that.
func noOperator(path string) error {
	return op.Refuse(op.BadParams, "by %s nobody could sign as operational now", path).
		WithHint("list an operator's key that is valid now, for namespaces=%q; or move the file away: it is written anew",
			op.Operational.Namespace())
}

// emptied returns the roles of a list in which somebody could sign at that time,
// and by the next list nobody could, in their order.
func emptied(was, next *authz.Trust, at time.Time) []op.Role {
	out := []op.Role{}
	for _, l := range was.Signers() {
		for _, role := range l.Roles {
			if len(was.Could(role, op.TouchNone, at)) > 0 && len(next.Could(role, op.TouchNone, at)) == 0 && !slices.Contains(out, role) {
				out = append(out, role)
			}
		}
	}
	return out
}
