package signers

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"gated/internal/authz"
	"gated/internal/base/ownfile"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/host/state"
	"gated/internal/log/journal"
)

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
