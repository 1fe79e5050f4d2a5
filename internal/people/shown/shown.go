// Package shown keeps what opsign showed last of each request. A later run that asks nobody signs
// that and nothing else.
//
// Each request of a gate has a file of its own with one line of JSON (docs/formats/shown.md). A file
// that is replaced whole needs no lock to be read. Writers take turns, because what a program was shown does not replace
// what a terminal showed.
package shown

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"gated/internal/base/op"
	"gated/internal/base/ownfile"
	"gated/internal/base/refusal"
)

const (
	// extension ends the name of a request's file, after its id.
	extension = ".json"
	// maxFile is the largest file that is read or written, in bytes. The longest payload has half of it.
	maxFile = 256 << 10
	// maxFiles is how many files of one gate are kept: those that were written last. The largest
	// batch has half of it.
	maxFiles = 2048
	// patience is how long a record waits for others of the gate that are being written.
	patience = 30 * time.Second
)

// ErrNoPlace is the error for a record that cannot be kept because there is no directory for it.
var ErrNoPlace = errors.New("neither XDG_STATE_HOME nor HOME is set")

// Dir is the directory with one user's records. Several goroutines and programs may use its
// methods at the same time.
type Dir struct {
	Path string // empty: there is no place for files
}

// DirOf returns $XDG_STATE_HOME/opsign/shown, or the directory below ~/.local/state. It is beside
// what opsign remembers of gates' audit logs.
func DirOf(getenv func(string) string) Dir { return Dir{ownfile.StateDir(getenv, "opsign", "shown")} }

func (d Dir) file(gate op.GateID, id op.RequestID) ownfile.File {
	return ownfile.File{Path: filepath.Join(d.Path, string(gate), id.String()+extension), Max: maxFile,
		What: "the requests that were shown", Moved: "XDG_STATE_HOME"}
}

// ErrPersonSawOther is the error for a record of what a program was shown, if a terminal showed other bytes.
var ErrPersonSawOther = errors.New("a terminal showed something else of it")

// Keep replaces what is kept of a request. What a program was shown replaces nothing that a terminal showed: neither other
// bytes, nor what was beside the same ones. Bytes alone replace nothing that says more of the same bytes. A record that Last would not read is Malformed, and one
// that is too long Oversized. Nothing is kept then, also nothing older: the older record is not what
// was shown last.
func (d Dir) Keep(r Record) error {
	if d.Path == "" {
		return ErrNoPlace
	}
	id, err := op.ParseStepID(r.Request)
	if err != nil || !r.Gate.Valid() {
		return malformed("it names no request of a gate")
	}
	file := d.file(r.Gate, id)
	if err := file.MakeDir(); err != nil {
		return err
	}
	switch unlock, err := d.lock(r.Gate); {
	case err == nil:
		defer unlock()
	case r.Way == ToProgram:
		return err
	default:
		return nothingOlder(file.Path, err)
	}
	if r.Way == ToProgram {
		was, err := d.Last(r.Gate, id)
		switch {
		case err != nil:
			return err
		case was == nil:
		case was.SHA256 == r.SHA256 && (was.Way != ToProgram || r.Beside == nil):
			return nil
		case was.Way != ToProgram: // also if an older opsign did not say
			return ErrPersonSawOther
		}
	}
	text, err := r.line()
	if err == nil {
		_, err = parseRecord(text)
	}
	if err == nil {
		err = file.Replace(text)
	}
	if err != nil {
		return nothingOlder(file.Path, err)
	}
	return prune(file.Path)
}

// lock keeps a terminal's record from coming between a program's look at the last record and its own. It is beside the
// directory of the gate, which may go.
func (d Dir) lock(gate op.GateID) (unlock func(), err error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return ownfile.File{Path: filepath.Join(d.Path, string(gate))}.Lock(ctx)
}

// nothingOlder removes what is kept of a request, because a newer record could not be.
func nothingOlder(path string, err error) error {
	if stays := remove(path); stays != nil {
		return fmt.Errorf("%w, and what was shown before stays: %w", err, stays)
	}
	return err
}

// Last returns what was shown last of a request, or nil if nothing is kept. A file that another
// user could have written is NotAllowed, and so is one that opsign could not replace: it may be older than what was shown
// last. A file in another form, or of another request, is Malformed.
func (d Dir) Last(gate op.GateID, id op.RequestID) (*Record, error) {
	if d.Path == "" {
		return nil, nil
	}
	file := d.file(gate, id)
	text, err := file.Read()
	if err != nil || text == nil {
		return nil, err
	}
	if err := unix.Access(filepath.Dir(file.Path), unix.W_OK); err != nil {
		return nil, refusal.New(refusal.NotAllowed, "%s may be older than what was shown last, because it cannot be replaced: %v", file.Path, err).
			WithHint("make its directory writable, or set XDG_STATE_HOME to another one, and show the request again")
	}
	r, err := parseRecord(text)
	if err == nil && (r.Gate != gate || r.Request != id.String()) {
		err = malformed("it is of another request")
	}
	if err != nil {
		return nil, refusal.New(refusal.Malformed, "%s: %s", file.Path, refusal.As(err).Detail).
			WithHint("opsign does not write the file so: find out who changed it, remove it, and show the request again")
	}
	return &r, nil
}

// Forget removes all that is kept of a gate's requests. Files of other names stay.
func (d Dir) Forget(gate op.GateID) error {
	if d.Path == "" || !gate.Valid() {
		return nil
	}
	dir := filepath.Join(d.Path, string(gate))
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if isRecord(e.Name()) {
			err = errors.Join(err, remove(filepath.Join(dir, e.Name())))
		}
	}
	if gone := os.Remove(dir); !errors.Is(gone, fs.ErrExist) && !errors.Is(gone, fs.ErrNotExist) { // else another file is in it
		err = errors.Join(err, gone)
	}
	return err
}

// prune removes the records beside the one at path that were written first, until maxFiles are left.
// What a crash left half-written counts as one. Files of other names stay. So does the one at path,
// whatever the times of the others are: a clock may have been set back.
func prune(path string) error {
	dir, last := filepath.Split(path)
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) <= maxFiles {
		return err
	}
	var infos []fs.FileInfo
	for _, e := range entries {
		// Another program may have replaced or removed it.
		if info, err := e.Info(); err == nil && isRecord(e.Name()) && e.Name() != last {
			infos = append(infos, info)
		}
	}
	slices.SortFunc(infos, func(a, b fs.FileInfo) int { return a.ModTime().Compare(b.ModTime()) })
	var failed error
	for _, info := range infos[:max(len(infos)+1-maxFiles, 0)] {
		failed = errors.Join(failed, remove(filepath.Join(dir, info.Name())))
	}
	return failed
}

// isRecord reports whether a name is that of a record, or of one that is being written.
func isRecord(name string) bool {
	id, _, found := strings.Cut(strings.TrimPrefix(name, "."), extension)
	_, err := op.ParseStepID(id)
	return found && err == nil
}

func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
