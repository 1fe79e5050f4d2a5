package archive

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"gated/internal/base/crashpoint"
	"gated/internal/base/op"
	"gated/internal/base/ownfile"
	"gated/internal/base/refusal"
	"gated/internal/log/audit"
	"gated/internal/log/journal"
)

// maxFile is how many bytes a segment's file has at most. What gzip cannot compress it makes a little longer.
const maxFile = MaxBytes + MaxBytes/64

// staged is the name under which a segment is written, before it has its own.
const staged = ".segment.tmp"

// Dir is a directory with segment files, the gate's own or a copy of it.
type Dir struct {
	path string

	mu   sync.Mutex
	row  audit.Segment // the segment that was read last, by its row
	last *Segment      // and what it has
}

// NewDir returns the directory of a path, which need not exist yet.
func NewDir(path string) *Dir { return &Dir{path: path} }

// Path returns the directory's path.
func (d *Dir) Path() string { return d.path }

// Write writes a segment, and returns its row and what a reader finds in the file afterwards. The file is on the disk under
// its name then, was read back, and was checked whole. At is left zero.
func (d *Dir) Write(s *Segment) (row audit.Segment, read *Segment, err error) {
	b, err := s.Encode()
	if err != nil {
		return row, nil, err
	}
	row = audit.Segment{Number: s.Number, First: s.First, Last: s.Last, Jobs: s.JobCount(), Bytes: int64(len(b)), SHA256: op.SHA256(b), Hash: s.Hash,
		Kept: s.Kept(), Stays: s.Stays()}
	if err := d.place(row.File(), b); err != nil {
		return row, nil, fmt.Errorf("write %s: %w", row.File(), err)
	}
	crashpoint.Here(crashpoint.ArchivePlaced)
	if read, err = d.Read(row); err != nil {
		return row, nil, err
	}
	if !slices.EqualFunc(s.Texts, read.Texts, slices.Equal[[]byte]) || !Same(s.Rows, read.Rows) {
		return row, nil, fmt.Errorf("%s does not have what was written into it", row.File())
	}
	crashpoint.Here(crashpoint.ArchiveVerified)
	return row, read, nil
}

// place writes a file under a temporary name, syncs it, gives it its name and syncs the directory. If it cannot, nothing stays
// under the temporary name.
func (d *Dir) place(name string, b []byte) (err error) {
	if err := d.make(); err != nil {
		return err
	}
	held, err := d.lock()
	if err != nil {
		return err
	}
	defer held.Close()
	tmp := filepath.Join(d.path, staged)
	if err := os.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(tmp))
	}
	crashpoint.Here(crashpoint.ArchiveStaged)
	if err := os.Rename(tmp, filepath.Join(d.path, name)); err != nil {
		return errors.Join(err, os.Remove(tmp))
	}
	return ownfile.SyncDir(d.path)
}

// make makes the directory if it is not there, and syncs the one above, so that its name is on the disk before a row goes.
// That one has to exist: a file system that is not mounted is no place for the only copy.
func (d *Dir) make() error {
	err := os.Mkdir(d.path, 0o700)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return ownfile.SyncDir(filepath.Dir(d.path))
}

// lock keeps every other process from writing a segment into the directory, because all use the same temporary name. It refuses, as
// Unavailable, if one does so now. To close the file ends it, and a kill does too.
func (d *Dir) lock() (*os.File, error) {
	f, err := os.Open(d.path)
	if err != nil {
		return nil, err
	}
	if err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err == nil {
		return f, nil
	}
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = refusal.New(refusal.Unavailable, "another process writes a segment file into %s now", d.where()).
			WithHint("two daemons must not share a directory: name another one as retention.archive for one of them")
	}
	return nil, errors.Join(err, f.Close())
}

// Read reads and checks the file of a segment. If it is not there, it is Unavailable; if it is not the segment's, Conflict.
// Both name the file.
func (d *Dir) Read(row audit.Segment) (*Segment, error) {
	if err := d.Look(row); err != nil { // a pipe would have no end
		return nil, err
	}
	path := filepath.Join(d.path, row.File())
	f, err := os.Open(path)
	if err != nil {
		return nil, unreadable(row, path, err)
	}
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, unreadable(row, path, err)
	}
	if op.SHA256(b) != row.SHA256 {
		return nil, changed(path, otherDigest)
	}
	s, err := ParseSegment(b)
	if err != nil {
		return nil, changed(path, err.Error())
	}
	if s.Number != row.Number || s.First != row.First || s.Last != row.Last || s.Hash != row.Hash || s.JobCount() != row.Jobs {
		return nil, changed(path, "it has other entries or jobs than the gate recorded")
	}
	return s, nil
}

// Look is Read that only looks whether the file is there with its length.
func (d *Dir) Look(row audit.Segment) error {
	path := filepath.Join(d.path, row.File())
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return d.without(row)
	case err != nil:
		return unreadable(row, path, err)
	case !info.Mode().IsRegular():
		return unreadable(row, path, errors.New("it is no ordinary file"))
	case info.Size() != row.Bytes:
		return changed(path, fmt.Sprintf("it has %d bytes, and the gate wrote %d", info.Size(), row.Bytes))
	}
	return nil
}

// without is the refusal of a segment whose file is not there. It says where the file was looked for.
func (d *Dir) without(row audit.Segment) error {
	r := audit.NotAtHand(row)
	if _, err := os.Stat(d.path); err != nil {
		return refusal.New(r.Code, "%s: the directory %s is not there", r.Detail, op.Shown(d.path)).
			WithHint("mount the file system with it, or put a copy of the files there")
	}
	unmarked := ""
	if _, err := os.Stat(filepath.Join(d.path, MarkName)); errors.Is(err, fs.ErrNotExist) {
		unmarked = ", which has no " + MarkName + " either: see whether its disk is mounted"
	}
	return refusal.New(r.Code, "%s: it is not in %s%s", r.Detail, d.where(), unmarked).
		WithHint("put the file back there, or a copy of it")
}

// Compare reads the file of a segment, and compares its bytes with the digest that the gate recorded. It needs little memory. Its
// refusals are those of Read.
func (d *Dir) Compare(row audit.Segment) error {
	if err := d.Look(row); err != nil { // a pipe would have no end
		return err
	}
	path := filepath.Join(d.path, row.File())
	f, err := os.Open(path)
	if err != nil {
		return unreadable(row, path, err)
	}
	h := sha256.New()
	n, err := io.Copy(h, io.LimitReader(f, maxFile+1))
	if err = errors.Join(err, f.Close()); err != nil {
		return unreadable(row, path, err)
	}
	if n != row.Bytes || hex.EncodeToString(h.Sum(nil)) != row.SHA256 {
		return changed(path, otherDigest)
	}
	return nil
}

// unreadable is the refusal of a file that is there and cannot be read.
func unreadable(row audit.Segment, path string, err error) error {
	return refusal.New(refusal.Unavailable, "entries %d to %d are archived, and %s cannot be read: %v", row.First, row.Last, path, err)
}

// otherDigest says that a file is none of this gate's, or was changed.
const otherDigest = "it is not the file that the gate wrote: its digest is another"

func changed(path, why string) error {
	return refusal.New(refusal.Conflict, "the segment file %s is damaged: %s", path, why).
		WithHint("put a copy of the file in its place; gated archive verify checks it")
}

// Texts implements audit.Older. It keeps the segment that was read last.
func (d *Dir) Texts(row audit.Segment) ([][]byte, error) {
	s, err := d.Cached(row)
	if err != nil {
		return nil, err
	}
	return s.Texts, nil
}

// Cached is Read, which reads the same segment once if it is asked for it again. Nobody may change what it returns.
func (d *Dir) Cached(row audit.Segment) (*Segment, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.last != nil && d.row == row {
		return d.last, nil
	}
	s, err := d.Read(row)
	if err != nil {
		return nil, err
	}
	d.row, d.last = row, s
	return s, nil
}

// Drop forgets the segment that was read last, so that its memory is free and the next reader reads the file.
func (d *Dir) Drop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.row, d.last = audit.Segment{}, nil
}

// Same reports whether two dumps have the same rows in the same order.
func Same(a, b []journal.Dump) bool {
	return slices.EqualFunc(a, b, func(x, y journal.Dump) bool {
		if x.Table != y.Table || !slices.Equal(x.Columns, y.Columns) || len(x.Rows) != len(y.Rows) {
			return false
		}
		left, err := encodeRows(x)
		right, err2 := encodeRows(y)
		return err == nil && err2 == nil && slices.Equal(left, right)
	})
}
