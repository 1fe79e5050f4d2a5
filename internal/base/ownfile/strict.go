package ownfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

const (
	// writableByOthers are the mode bits that let the group or others write. If a file has a
	// POSIX access list, the group's bits are the list's mask (acl(5)).
	writableByOthers = unix.S_IWGRP | unix.S_IWOTH
	// maxLinks is the most symbolic links in one path, as in path_resolution(7).
	maxLinks = 40
)

// StrictModes decides if only root and one uid can change what a path leads to, as sshd's
// option of that name does. The file, each directory above it up to "/", and each symbolic link
// on the way must belong to root or to UID. Neither group nor others may write to them. A
// directory above may have the sticky bit, as /tmp has, because others cannot replace files of
// root or UID there. A file in such a directory may have only one name, because any user could
// give it a second one there.
//
// Every refusal is op.NotAllowed. It names the path and its mode or owner, and its hint has the
// command that corrects it. Errors of the file system are *fs.PathError.
type StrictModes struct {
	UID uint32

	// Private reports whether UID is alone in a group, so that the group may write. If it is
	// nil, no group may write.
	Private func(gid uint32) bool
}

// Own returns the rule for files that this process trusts.
func Own() StrictModes { return StrictModes{UID: uint32(os.Geteuid())} }

// Check checks a file or directory without opening it.
func (s StrictModes) Check(path string) error {
	f, err := s.walk(path)
	if err != nil {
		return err
	}
	defer f.close()
	return s.last(path, f)
}

// CheckAbove checks the directory that a path is in, and those above. If some are missing, it
// begins at the deepest one that exists.
func (s StrictModes) CheckAbove(path string) error {
	for dir := filepath.Dir(filepath.Clean(path)); ; dir = filepath.Dir(dir) {
		f, err := s.walk(dir)
		if errors.Is(err, fs.ErrNotExist) && dir != "/" {
			continue
		}
		if err == nil {
			err = s.directory(path, f)
			f.close()
		}
		return err
	}
}

// directory checks a directory above a file.
func (s StrictModes) directory(path string, f *found) error {
	if f.stat.Mode&unix.S_IFMT != unix.S_IFDIR {
		return &fs.PathError{Op: "open", Path: f.path, Err: unix.ENOTDIR}
	}
	return s.above(path, f.path, &f.stat)
}

// Open checks an ordinary file and opens it to read. It returns the very file that it checked.
func (s StrictModes) Open(path string) (*os.File, error) {
	f, err := s.walk(path)
	if err != nil {
		return nil, err
	}
	defer f.close()
	if err := s.last(path, f); err != nil {
		return nil, err
	}
	if f.stat.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, refusal.New(refusal.NotAllowed, "%s is not an ordinary file", path).WithHint("put the file itself there")
	}
	return f.open(path, unix.O_NONBLOCK|unix.O_NOCTTY)
}

// OpenDir checks a directory and opens it to read.
func (s StrictModes) OpenDir(path string) (*os.File, error) {
	f, err := s.walk(path)
	if err != nil {
		return nil, err
	}
	defer f.close()
	if err := s.last(path, f); err != nil {
		return nil, err
	}
	return f.open(path, unix.O_DIRECTORY)
}

// Read returns at most limit+1 bytes of a file. The extra byte tells the caller that the file
// is longer.
func (s StrictModes) Read(path string, limit int64) ([]byte, error) {
	f, err := s.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	return io.ReadAll(io.LimitReader(f, limit+1))
}

// CheckOpen checks a file that the caller opened below a checked directory.
func (s StrictModes) CheckOpen(f *os.File) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return &fs.PathError{Op: "stat", Path: f.Name(), Err: err}
	}
	return s.believed(f.Name(), f.Name(), &st)
}

// found is the file at the end of a path, held open. So no user can replace it between two
// checks.
type found struct {
	fd     int // opened to look at it (lookOnly)
	above  int // its directory; -1 of "/"
	name   string
	path   string // with all links resolved
	stat   unix.Stat_t
	sticky bool // others may make files in its directory
}

func (f *found) close() {
	for _, fd := range []int{f.fd, f.above} {
		if fd >= 0 {
			_ = unix.Close(fd) // it was only looked at
		}
	}
	f.fd, f.above = -1, -1
}

// open opens exactly the found file.
func (f *found) open(path string, flags int) (*os.File, error) {
	at, name := f.above, f.name
	if f.stat.Mode&unix.S_IFMT == unix.S_IFDIR {
		at, name = f.fd, "."
	}
	fd, err := unix.Openat(at, name, flags|unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	file := os.NewFile(uintptr(fd), path)
	var now unix.Stat_t
	if err := unix.Fstat(fd, &now); err != nil {
		return nil, errors.Join(&fs.PathError{Op: "stat", Path: path, Err: err}, file.Close())
	}
	if now.Dev != f.stat.Dev || now.Ino != f.stat.Ino || now.Mode != f.stat.Mode || now.Uid != f.stat.Uid || now.Gid != f.stat.Gid {
		_ = file.Close() // no data was read
		return nil, refusal.New(refusal.NotAllowed, "%s was replaced while it was looked at", path).WithHint("try again")
	}
	return file, nil
}

// walk follows a path from "/" and checks each directory and link on the way. It looks at the
// file at the end but does not check it.
func (s StrictModes) walk(path string) (*found, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	f := &found{fd: -1, above: -1}
	if err := begin(f); err != nil {
		f.close()
		return nil, err
	}
	rest := strings.TrimPrefix(abs, "/")
	for links := 0; rest != ""; {
		name, more, _ := strings.Cut(rest, "/")
		rest = strings.TrimLeft(more, "/")
		if name == "" || name == "." {
			continue
		}
		to, err := s.step(path, f, name)
		if err == nil && to != "" {
			if links++; links > maxLinks {
				err = &fs.PathError{Op: "follow", Path: path, Err: unix.ELOOP}
			}
			if err == nil && filepath.IsAbs(to) {
				f.close()
				err = begin(f)
			}
			rest = strings.TrimLeft(to+"/"+rest, "/")
		}
		if err != nil {
			f.close()
			return nil, err
		}
	}
	return f, nil
}

// begin opens "/".
func begin(f *found) error {
	fd, err := unix.Open("/", lookOnly|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &fs.PathError{Op: "open", Path: "/", Err: err}
	}
	*f = found{fd: fd, above: -1, name: ".", path: "/"}
	if err := unix.Fstat(fd, &f.stat); err != nil {
		return &fs.PathError{Op: "stat", Path: "/", Err: err}
	}
	return nil
}

// step checks the current directory and goes on to a name in it. If the name is a symbolic
// link, step stays in the directory and returns the link's target.
func (s StrictModes) step(path string, f *found, name string) (to string, err error) {
	if err := s.directory(path, f); err != nil {
		return "", err
	}
	next := &found{name: name, path: filepath.Join(f.path, name), sticky: f.stat.Mode&writableByOthers != 0}
	if next.fd, err = unix.Openat(f.fd, name, lookOnly|linkItself|unix.O_CLOEXEC, 0); err != nil {
		return "", &fs.PathError{Op: "open", Path: next.path, Err: err}
	}
	if err = unix.Fstat(next.fd, &next.stat); err != nil {
		_ = unix.Close(next.fd)
		return "", &fs.PathError{Op: "stat", Path: next.path, Err: err}
	}
	if next.stat.Mode&unix.S_IFMT == unix.S_IFLNK {
		defer func() { _ = unix.Close(next.fd) }() // it was only looked at
		if err := s.last(path, next); err != nil {
			return "", err
		}
		return readLink(f.fd, next)
	}
	if f.above >= 0 {
		_ = unix.Close(f.above)
	}
	next.above = f.fd
	*f = *next
	return "", nil
}

// last checks the file at the end of a path, or a link on the way.
func (s StrictModes) last(path string, f *found) error {
	if f.sticky && f.stat.Mode&unix.S_IFMT != unix.S_IFDIR && f.stat.Nlink > 1 {
		return refusal.New(refusal.NotAllowed, "%s has %d names (hard links), and any user may make names in %s",
			saying(path, f.path), f.stat.Nlink,
			filepath.Dir(f.path)).WithHint("put a file of its own into a directory that root or the daemon's user alone may write to")
	}
	return s.believed(path, f.path, &f.stat)
}

// above checks a directory on the way.
func (s StrictModes) above(path, at string, st *unix.Stat_t) error {
	if st.Mode&unix.S_ISVTX != 0 {
		return s.owned(path, at, st)
	}
	return s.believed(path, at, st)
}

// believed checks the owner and the mode of one file or directory.
func (s StrictModes) believed(path, at string, st *unix.Stat_t) error {
	if err := s.owned(path, at, st); err != nil {
		return err
	}
	mode := st.Mode & writableByOthers
	if st.Mode&unix.S_IFMT == unix.S_IFLNK || mode == 0 {
		return nil // the mode of a link has no effect
	}
	if mode == unix.S_IWGRP && s.Private != nil && s.Private(st.Gid) {
		return nil
	}
	who := "others"
	if mode == unix.S_IWGRP {
		who = fmt.Sprintf("the group %d", st.Gid)
	}
	return refusal.New(refusal.NotAllowed, "%s may be written by %s (mode %04o)", saying(path, at), who, st.Mode&0o7777).
		WithHint("look at what is in it, then: chmod go-w %s", op.Shown(at))
}

func (s StrictModes) owned(path, at string, st *unix.Stat_t) error {
	if st.Uid == 0 || st.Uid == s.UID {
		return nil
	}
	return refusal.New(refusal.NotAllowed, "%s belongs to %s, who is neither root nor uid %d (mode %04o)",
		saying(path, at), Owner(st.Uid), s.UID, st.Mode&0o7777).
		WithHint("look at what is in it, then: chown -h root %s", op.Shown(at))
}

// saying names the requested path and, if another path on the way is refused, that path too.
func saying(path, at string) string {
	if path == at {
		return op.Shown(at)
	}
	return op.Shown(path) + " is not believed: " + op.Shown(at)
}
