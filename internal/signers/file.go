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
	"gated/internal/journal"
	"gated/internal/op"
	"gated/internal/ownfile"
	"gated/internal/state"
	"gated/internal/store"
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
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, op.NotAllowed) {
		err = op.Refuse(op.Unavailable, "the list of signers cannot be read: %v", err).
			WithHint("move the file away: the gate writes it anew")
	}
	return text, err
}

// Shown is what Show did to the file.
type Shown struct {
	Wrote  bool
	Edited bool // it was edited, and the edit is kept aside: see File.Edited
}

// Show makes the file say what a version of the list says. If the file says
// anything that no version of the list ever said, the gate keeps that aside: an
// operator may have typed it.
func (f *File) Show(ctx context.Context, s *store.Store, v journal.TrustVersion) (done Shown, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	found, err := f.Read()
	missing := errors.Is(err, fs.ErrNotExist)
	if err == nil && bytes.Equal(found, v.Text) {
		return done, nil
	}
	if err == nil {
		known, err := isVersion(ctx, s, found)
		if err != nil {
			return done, err
		}
		done.Edited = !known
	} else {
		done.Edited = !missing
	}
	if done.Edited {
		if err := os.Rename(f.path, f.path+editedExt); err != nil {
			return Shown{}, err
		}
	}
	if err := state.ReplaceFile(f.path, v.Text); err != nil {
		return Shown{Edited: done.Edited}, err
	}
	done.Wrote = true
	return done, nil
}
