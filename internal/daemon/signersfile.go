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
	"strings"
	"sync"
	"syscall"

	"gated/internal/authz"
	"gated/internal/crashpoint"
	"gated/internal/driver/trust"
	"gated/internal/journal"
	"gated/internal/op"
	"gated/internal/ownfile"
	"gated/internal/store"
)

// signersFile is DIR/allowed_signers: the newest version of the table trust, as
// ssh-keygen and people read it. What is in force is the table.
type signersFile struct {
	path string
	own  ownfile.StrictModes // whose file it may be
	mu   sync.Mutex          // held from the look at it to the end of writing it
	said int64               // epoch that it was seen to say, 0 before the first look
}

// settled is what settle did.
type settled struct {
	wrote bool // the file
	older bool // for it said what the version before says, and this process has not rotated since it said the newest
}

// versions are the newest version of the trust file and the one before it; the
// zero ones where there is none.
type versions struct{ newest, before journal.TrustVersion }

func readVersions(ctx context.Context, s *store.Store) (v versions, err error) {
	err = s.View(ctx, func(tx *store.Tx) error {
		if v.newest, err = journal.ReadTrust(tx); err != nil || v.newest.Epoch < 2 {
			return err
		}
		v.before, err = journal.ReadTrustOf(tx, v.newest.Epoch-1)
		return err
	})
	return v, err
}

// newSignersFile is the file of a state directory that this process's uid has.
func newSignersFile(path string) *signersFile { return &signersFile{path: path, own: ownfile.Own()} }

// read returns the file's bytes. A file that is not there is fs.ErrNotExist, and
// one that others could have written is NotAllowed.
func (f *signersFile) read() ([]byte, error) {
	text, err := readBounded(f.own, f.path, authz.MaxTrust)
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, op.NotAllowed) {
		err = op.Refuse(op.Unavailable, "the list of signers cannot be read: %v", err).
			WithHint("move the file away: it is written anew")
	}
	return text, err
}

// settle brings the file to the newest version where that can only be right: it
// is not there, or is the version before, which a crash between the commit and
// the file leaves. A file that is anything else is somebody's edit: Conflict,
// with what differs, and the file stays.
func (f *signersFile) settle(v versions) (done settled, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	found, err := f.read()
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return done, err
	case bytes.Equal(found, v.newest.Text):
		f.said = v.newest.Epoch
		return done, nil
	case v.before.Epoch == 0 || !bytes.Equal(found, v.before.Text):
		return done, f.edited(v.newest, found)
	default:
		done.older = f.said == 0 || f.said == v.newest.Epoch
	}
	if err := replaceFile(f.path, v.newest.Text); err != nil {
		return settled{}, err
	}
	done.wrote, f.said = true, v.newest.Epoch
	return done, nil
}

// edited says what differs, without a key in it: Malformed where the file does
// not load.
func (f *signersFile) edited(newest journal.TrustVersion, found []byte) error {
	dir := filepath.Dir(f.path)
	code, what := op.Conflict, ""
	next, err := authz.LoadTrust(found)
	if err != nil {
		code, what = op.Malformed, op.AsRefusal(err).Detail
	} else {
		held, err := authz.LoadTrust(newest.Text)
		if err != nil {
			return err // a newer gated wrote it
		}
		what = strings.Join(compare(held, next).lines(), "; ")
	}
	return op.Refuse(code, "%s is not as the gate wrote it (epoch %d): %s", f.path, newest.Epoch, what).
		WithHint("if you mean it, stop the daemon and say so as root: gated trust adopt --state %s; else move the file away: "+
			"it is written anew", dir)
}

// change is what differs between two trust files.
type change struct{ added, removed []authz.Listed }

// compare goes by everything that a line says but for where it stands.
func compare(held, next *authz.Trust) change {
	left := map[string]int{}
	for _, l := range held.Signers() {
		left[trust.Describe(l)]++
	}
	var c change
	kept := map[string]int{}
	for _, l := range next.Signers() {
		if d := trust.Describe(l); left[d] > 0 {
			left[d]--
			kept[d]++
		} else {
			c.added = append(c.added, l)
		}
	}
	for _, l := range held.Signers() {
		if d := trust.Describe(l); kept[d] > 0 {
			kept[d]--
		} else {
			c.removed = append(c.removed, l)
		}
	}
	return c
}

// lines shows a change to people.
func (c change) lines() []string {
	var out []string
	for _, l := range c.added {
		out = append(out, "+ "+trust.Describe(l))
	}
	for _, l := range c.removed {
		out = append(out, "- "+trust.Describe(l))
	}
	if out == nil {
		out = []string{"comments, other namespaces or the order of lines, and no signer"}
	}
	return out
}

// replaceFile puts a file with these bytes in the place of another, 0600 and on
// disk, so that whoever reads it sees one or the other whole.
func replaceFile(path string, text []byte) error {
	tmp := path + ".tmp"
	if err := os.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := writeNew(tmp, text); err != nil {
		return err
	}
	crashpoint.Here(crashpoint.StateFileStaged)
	if err := os.Rename(tmp, path); err != nil {
		return err
	}
	crashpoint.Here(crashpoint.StateFilePlaced)
	return syncDir(filepath.Dir(path))
}

// readBounded reads an ordinary file of at most limit bytes and one more, by
// which its reader sees that it is too large. It follows no link at the file's
// own name. A file that others could have written is NotAllowed.
func readBounded(own ownfile.StrictModes, path string, limit int64) ([]byte, error) {
	if err := own.CheckAbove(path); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not an ordinary file", path)
	}
	if err := own.CheckOpen(f); err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(f, limit+1))
}
