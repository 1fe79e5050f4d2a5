// Package signers keeps who may sign. The table of versions in the database and
// the audit log say it; the file allowed_signers is output. The file of revoked
// keys is input: it takes keys away from the list at once.
package signers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"gated/internal/authz"
	"gated/internal/base/op"
	"gated/internal/base/ownfile"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/gate"
	"gated/internal/host/state"
	"gated/internal/log/audit"
	"gated/internal/log/journal"
	"gated/internal/people/pubkey"
)

// StateOwner is the author of entries of the audit log that the owner of the
// state directory caused.
const StateOwner = "state owner"

// How a version came to be that no step made.
const (
	howInit   = "init"
	howFirst  = "adopted: first start with this version"
	howByRoot = "adopted by uid %d"
	howKept   = "kept by a restore (%s)"
	howTaken  = "the backup's, at a restore that asked for it (%s)"
)

// List is one version of the list of signers: its row, and the row's text as
// the gate reads it.
type List struct {
	Trust   *authz.Trust
	Version journal.TrustVersion
}

// Current returns the newest list in the database. If the database has none,
// because it is older than lists with versions, Current reads the file, and fresh
// is true: the caller records the list. Current refuses, as Conflict, a list of
// which the audit log does not tell.
func Current(ctx context.Context, s *store.Store, f *File) (l List, fresh bool, err error) {
	l.Version, err = Newest(ctx, s)
	switch {
	case err != nil:
		return l, false, err
	case l.Version.Epoch > 0:
		err = toldTrust(ctx, s, l.Version)
	default:
		fresh = true
		l.Version = journal.TrustVersion{Epoch: 1, How: howFirst}
		l.Version.Text, err = f.first()
	}
	if err == nil {
		l.Trust, err = Load(f.path, l.Version.Text)
	}
	return l, fresh, err
}

// Newest returns the newest version of the list in a database, the zero version
// if it has none.
func Newest(ctx context.Context, s *store.Store) (v journal.TrustVersion, err error) {
	err = s.View(ctx, func(tx *store.Tx) error {
		v, err = journal.ReadTrust(tx)
		return err
	})
	return v, err
}

// EditedEntry is the entry of the audit log that tells of an edit of the file.
func EditedEntry(v journal.TrustVersion) audit.Entry {
	return audit.Entry{Kind: audit.Trusted, Target: op.Signers.String(),
		Parts:  audit.Parts{SignersFile: audit.SignersFile{Epoch: v.Epoch, SHA256: op.SHA256(v.Text)}, Edited: true},
		Detail: "the file of signers was edited by hand; the gate keeps the edit aside and writes the file anew"}
}

// Initial returns the list that init writes for keys.
func Initial(keys map[op.Role][]pubkey.Arg) (List, error) {
	text, trust, err := signersText(keys)
	return List{Trust: trust, Version: journal.TrustVersion{Epoch: 1, Text: text, How: howInit}}, err
}

// Load is authz.LoadTrust with the file's name in its refusal.
func Load(path string, text []byte) (*authz.Trust, error) {
	trust, err := authz.LoadTrust(text)
	if err == nil {
		return trust, nil
	}
	r := refusal.As(err)
	return nil, refusal.New(r.Code, "%s: %s", path, r.Detail).WithHint("%s", r.Hint)
}

// Record writes a version that no step made, with its audit entry, in the
// caller's transaction.
func (l List) Record(tx *store.Tx, by string, id op.GateID, c Change) error {
	if err := journal.AddTrust(tx, l.Version); err != nil {
		return fmt.Errorf("record the signers: %w", err)
	}
	e := gate.RotatedEntry(by, authz.Rotation{Trust: l.Trust, Added: c.Added, Removed: c.Removed}, l.Version)
	e.Gate, e.Time, e.Target = id, l.Version.At, op.Signers.String()
	_, err := audit.Append(tx, e)
	return err
}

// first reads the file for a database that has no list yet.
func (f *File) first() ([]byte, error) {
	text, err := f.Read()
	if errors.Is(err, fs.ErrNotExist) {
		err = refusal.New(refusal.Unavailable, "the list of signers %s is missing, and the database has none", f.path).
			WithHint("put it back from a backup")
	}
	return text, err
}

// isVersion reports whether a text is one of the versions of the list.
func isVersion(ctx context.Context, s *store.Store, text []byte) (is bool, err error) {
	err = s.View(ctx, func(tx *store.Tx) error {
		all, err := journal.Trusts(tx)
		is = slices.ContainsFunc(all, func(v journal.TrustVersion) bool { return bytes.Equal(v.Text, text) })
		return err
	})
	return is, err
}

// editedExt follows the file's name in that of an edit that the gate moved aside.
const editedExt = ".edited"

// File is DIR/allowed_signers. The gate writes it, for ssh-keygen and for
// people; what it says decides nothing.
type File struct {
	path string
	own  ownfile.StrictModes // the user that may have written it
	mu   sync.Mutex          // held from the look at it to the end of writing it
}

// NewFile returns the file of a state directory of this process's user.
func NewFile(dir string) *File { return FileOf(ownfile.Own(), dir) }

// FileOf is NewFile of a directory that another user may own.
func FileOf(own ownfile.StrictModes, dir string) *File {
	return &File{path: filepath.Join(dir, state.SignersName), own: own}
}

// Path returns where the file is.
func (f *File) Path() string { return f.path }

// Edited returns where the gate keeps the last edit of the file, and whether
// there is one.
func (f *File) Edited() (path string, is bool) {
	path = f.path + editedExt
	_, err := os.Lstat(path)
	return path, err == nil
}

// Read returns the file's bytes. If there is no file the error is fs.ErrNotExist;
// a file that others could have written is NotAllowed.
func (f *File) Read() ([]byte, error) {
	text, err := state.ReadBounded(f.own, f.path, authz.MaxTrust)
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, refusal.NotAllowed) {
		err = refusal.New(refusal.Unavailable, "the list of signers cannot be read: %v", err).
			WithHint("move the file away: the gate writes it anew")
	}
	return text, err
}

// Showing is what Show asks and tells.
type Showing struct {
	// InForce says why the newest version in the database is not the list in force;
	// then the file stays as it is. Nil asks nothing.
	InForce func(v journal.TrustVersion) error
	// Edited is told of an edit before the file is touched. If it fails, the file
	// stays as it is.
	Edited func(v journal.TrustVersion) error
}

// Show makes the file say what the newest version of the list says, and reports
// whether it wrote the file. If the file says anything that no version of the list
// ever said, the gate keeps that aside: an operator may have typed it. A file that
// cannot be read stays as it is.
func (f *File) Show(ctx context.Context, s *store.Store, o Showing) (wrote bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	v, err := Newest(ctx, s)
	if err == nil && o.InForce != nil {
		err = o.InForce(v)
	}
	if err != nil {
		return false, err
	}
	found, err := f.Read()
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return false, err
	case bytes.Equal(found, v.Text):
		return false, nil
	default:
		if err := f.keepEdit(ctx, s, found, func() error { return o.Edited(v) }); err != nil {
			return false, err
		}
	}
	return true, state.ReplaceFile(f.path, v.Text)
}

// keepEdit moves the file aside unless its text is a version of the list.
func (f *File) keepEdit(ctx context.Context, s *store.Store, text []byte, edited func() error) error {
	known, err := isVersion(ctx, s, text)
	if err == nil && !known {
		err = edited()
	}
	if err != nil || known {
		return err
	}
	return os.Rename(f.path, f.path+editedExt)
}
