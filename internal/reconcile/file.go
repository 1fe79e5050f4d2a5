package reconcile

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"gated/internal/base/inotify"
	"gated/internal/base/op"
	"gated/internal/base/ownfile"
	"gated/internal/base/refusal"
	"gated/internal/wire/desired"
)

// file is one document as it was last read.
type file struct {
	stat      stat
	digest    string
	doc       desired.Document
	err       error
	unsettled bool // err says only that a writer may still have it open
}

// stat has everything that changes if a file's content does, as far as the file system tells.
type stat struct {
	dev, ino     uint64
	size         int64
	mtime, ctime unix.Timespec
}

func statOf(st *unix.Stat_t) stat {
	return stat{dev: st.Dev, ino: st.Ino, size: st.Size, mtime: st.Mtim, ctime: st.Ctim}
}

// touched returns the time of the file's last change.
func (s stat) touched() time.Time {
	m, c := time.Unix(s.mtime.Unix()), time.Unix(s.ctime.Unix())
	if m.After(c) {
		return m
	}
	return c
}

// scan is one pass over a directory or some of its files.
type scan struct {
	dir    *os.File
	fd     int // of dir
	now    time.Time
	events map[string]bool // files that were closed, moved or deleted since the last pass
	watch  *inotify.Watch
}

var errUnsettled = errors.New("it may still be written to")

// unchanged reports whether a file is as it was when it was read.
func (s scan) unchanged(name string, f *file) bool {
	var st unix.Stat_t
	err := unix.Fstatat(s.fd, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	return err == nil && !f.unsettled && f.stat == statOf(&st)
}

// load looks at one file and reads it if it changed. If there is no file, it returns none. If there is nothing new, it
// returns old, and changed is false. It also does so while a writer has the file open, because half a document must not
// be read: the old document counts until the writer closes.
func (s scan) load(name string, old *file) (f *file, changed bool) {
	var st unix.Stat_t
	err := unix.Fstatat(s.fd, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	if errors.Is(err, unix.ENOENT) {
		return nil, old != nil
	}
	if err == nil && old != nil && old.stat == statOf(&st) && !old.unsettled {
		return old, false
	}
	if s.watch.Writing(name) {
		return old, false
	}
	f = &file{stat: statOf(&st), err: err}
	if f.err == nil {
		f.err = s.read(f, name, &st, old)
	}
	if s.watch.Writing(name) || errors.Is(f.err, unix.ENOENT) {
		return old, false // it changed during the read; an event follows when the writer closes it
	}
	var r *refusal.Refusal
	switch {
	case errors.Is(f.err, errUnsettled):
		f.unsettled = true
		f.err = refusal.New(refusal.Unavailable, "%s: %v", name, f.err).WithHint("it is read when its writer closes it")
	case f.err != nil && !errors.As(f.err, &r):
		f.err = refusal.New(refusal.Unavailable, "%s: %v", name, f.err)
	}
	return f, true
}

// read reads and parses a file into f. If the bytes are the same, it takes the parsed document from old.
func (s scan) read(f *file, name string, st *unix.Stat_t, old *file) error {
	switch {
	case op.CheckName(name) != nil:
		return refusal.New(refusal.Malformed, "%s: %q is not a name for a set", filepath.Base(s.dir.Name()), name).
			WithHint("rename the file: letters and digits, then also . _ and -")
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		// The daemon must not follow a link: it could show lines of a file that the directory's owner may not read. A
		// FIFO would block for ever.
		return refusal.New(refusal.Malformed, "%s: not a regular file", name)
	case st.Size > desired.MaxBytes:
		return refusal.New(refusal.Oversized, "%s: %d bytes, more than %d", name, st.Size, desired.MaxBytes)
	}
	if age := s.now.Sub(f.stat.touched()); !s.events[name] && age >= 0 && age < settle {
		return errUnsettled
	}
	fd, err := unix.Openat(s.fd, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	h := os.NewFile(uintptr(fd), filepath.Join(s.dir.Name(), name))
	defer func() { _ = h.Close() }()
	err = ownfile.Own().CheckOpen(h)
	if refused := (*refusal.Refusal)(nil); errors.As(err, &refused) {
		return mendable(name, refused)
	}
	if err != nil {
		return err
	}
	b, err := io.ReadAll(io.LimitReader(h, desired.MaxBytes+1))
	if err != nil {
		return err
	}
	var after unix.Stat_t
	if err := unix.Fstat(fd, &after); err != nil {
		return err
	}
	if statOf(&after) != f.stat || int64(len(b)) != after.Size {
		return errUnsettled
	}
	f.digest = op.SHA256(b)
	if old != nil && old.err == nil && old.digest == f.digest {
		f.doc = old.doc
		return nil
	}
	f.doc, err = desired.Parse(name, b)
	return err
}
