package ownfile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// Made is a directory that MakeDir opened or made. All work in it uses the open directory, so a
// link that appears in its path has no effect.
type Made struct {
	Path string

	dir  *os.File
	made bool      // MakeDir made it
	dirs []madeDir // the directories that MakeDir made, the innermost last
}

// madeDir is a directory that MakeDir made: its name, and the open directory above it.
type madeDir struct {
	above int
	name  string
}

// MakeDir opens a directory, or makes it and the missing ones above it with mode 0700. It makes
// each directory below an open one that it checked, and opens it without following a link. If
// another file appears in such a place, the error is op.NotAllowed, and MakeDir leaves nothing
// behind. The directory itself must belong to UID. The caller checks its mode. If before is not
// nil, MakeDir calls it with each path before it makes that path.
func (s StrictModes) MakeDir(path string, before func(path string)) (*Made, error) {
	if before == nil {
		before = func(string) {}
	}
	path = filepath.Clean(path)
	m := &Made{Path: path}
	above, missing, err := s.deepest(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	for _, name := range missing {
		before(name)
		if above, err = s.makeBelow(m, above, name); err != nil {
			return nil, errors.Join(err, m.TakeBack())
		}
	}
	before(path)
	err = unix.Mkdirat(above, filepath.Base(path), 0o700)
	switch {
	case err == nil:
		m.dirs, m.made = append(m.dirs, madeDir{above, filepath.Base(path)}), true
	case errors.Is(err, unix.EEXIST):
		defer unix.Close(above)
	default:
		_ = unix.Close(above) // it was only looked at
		return nil, errors.Join(&fs.PathError{Op: "mkdir", Path: path, Err: err}, m.TakeBack())
	}
	if m.dir, err = s.openBelow(above, path); err != nil {
		return nil, errors.Join(err, m.TakeBack())
	}
	return m, nil
}

// deepest opens the deepest existing directory of a path. It returns the missing ones below it,
// outermost first.
func (s StrictModes) deepest(path string) (fd int, missing []string, err error) {
	for dir := path; ; dir = filepath.Dir(dir) {
		f, err := s.walk(dir)
		if errors.Is(err, fs.ErrNotExist) && dir != "/" {
			missing = append([]string{dir}, missing...)
			continue
		}
		if err != nil {
			return -1, nil, err
		}
		if err = s.directory(dir, f); err != nil {
			f.close()
			return -1, nil, err
		}
		fd, f.fd = f.fd, -1
		f.close()
		return fd, missing, nil
	}
}

// makeBelow makes and opens one directory. It gives above to Made or closes it.
func (s StrictModes) makeBelow(m *Made, above int, path string) (int, error) {
	name := filepath.Base(path)
	if err := unix.Mkdirat(above, name, 0o700); err != nil {
		_ = unix.Close(above) // it was only looked at
		if errors.Is(err, unix.EEXIST) {
			return -1, appeared(path)
		}
		return -1, &fs.PathError{Op: "mkdir", Path: path, Err: err}
	}
	m.dirs = append(m.dirs, madeDir{above, name})
	dir, err := s.openBelow(above, path)
	if err != nil {
		return -1, err
	}
	fd, err := unix.FcntlInt(dir.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	return fd, errors.Join(err, dir.Close())
}

// openBelow opens a directory of UID's to which no other user may write.
func (s StrictModes) openBelow(above int, path string) (*os.File, error) {
	fd, err := unix.Openat(above, filepath.Base(path), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENOTDIR) {
		return nil, appeared(path)
	}
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	dir := os.NewFile(uintptr(fd), path)
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil && st.Uid != s.UID {
		err = refusal.New(refusal.NotAllowed, "%s belongs to %s, and gated runs as uid %d",
			op.Shown(path), Owner(st.Uid), s.UID).
			WithHint("find out who made it, and choose another directory")
	}
	if err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	return dir, nil
}

func appeared(path string) error {
	return refusal.New(refusal.NotAllowed, "%s is a symbolic link or no directory, or appeared while it was made",
		op.Shown(path)).
		WithHint("find out who made it, remove it, and try again; or choose another directory")
}

// Dir returns the open directory.
func (m *Made) Dir() *os.File { return m.dir }

// Create makes a file of mode 0600 that must not exist yet, and opens it to write. If anything
// has that name, also a link, the error is fs.ErrExist.
func (m *Made) Create(name string) (*os.File, error) {
	return m.open(name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL)
}

// Open opens a file to read and write. If the file is missing, Open makes it with mode 0600.
// For a link or a directory of that name, the error is op.NotAllowed.
func (m *Made) Open(name string) (*os.File, error) {
	f, err := m.open(name, unix.O_RDWR|unix.O_CREAT)
	if errors.Is(err, unix.ELOOP) || errors.Is(err, unix.EISDIR) {
		at := op.Shown(filepath.Join(m.Path, name))
		return nil, refusal.New(refusal.NotAllowed, "%s is a symbolic link or a directory", at).
			WithHint("find out who made it, remove it, and try again")
	}
	return f, err
}

func (m *Made) open(name string, flags int) (*os.File, error) {
	path := filepath.Join(m.Path, name)
	fd, err := unix.Openat(int(m.dir.Fd()), name, flags|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

// Remove removes a file of the directory. A missing file is no error.
func (m *Made) Remove(name string) error {
	if err := unix.Unlinkat(int(m.dir.Fd()), name, 0); err != nil && !errors.Is(err, unix.ENOENT) {
		return &fs.PathError{Op: "remove", Path: filepath.Join(m.Path, name), Err: err}
	}
	return nil
}

// Still refuses with op.NotAllowed if the path leads to another directory now.
func (m *Made) Still() error {
	held, err := m.dir.Stat()
	if err != nil {
		return err
	}
	now, err := os.Lstat(m.Path)
	if err != nil || !os.SameFile(held, now) {
		return refusal.New(refusal.NotAllowed, "%s was replaced while gated worked in it", op.Shown(m.Path)).
			WithHint("find out who did, and choose another directory")
	}
	return nil
}

// WasMade reports whether MakeDir made the directory.
func (m *Made) WasMade() bool { return m.made }

// TakeBack removes the directories that MakeDir made, if they are empty, and closes everything.
func (m *Made) TakeBack() error {
	var errs []error
	for i := len(m.dirs) - 1; i >= 0; i-- {
		d := m.dirs[i]
		if err := unix.Unlinkat(d.above, d.name, unix.AT_REMOVEDIR); err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ENOTDIR) {
			errs = append(errs, fmt.Errorf("take back what was made: %w", &fs.PathError{Op: "remove", Path: d.name, Err: err}))
			break
		}
	}
	return errors.Join(append(errs, m.Close())...)
}

// Close closes everything and removes nothing.
func (m *Made) Close() error {
	for _, d := range m.dirs {
		_ = unix.Close(d.above) // it was only looked at
	}
	m.dirs = nil
	if m.dir == nil {
		return nil
	}
	err := m.dir.Close()
	m.dir = nil
	return err
}

// pause is the time between two attempts to get a lock.
const pause = 10 * time.Millisecond

// MakeDir makes the file's directory with mode 0700 if it is missing, and checks it as CheckDir
// does.
func (f File) MakeDir() error {
	if err := os.MkdirAll(filepath.Dir(f.Path), 0o700); err != nil {
		return err
	}
	return f.CheckDir()
}

// Lock takes the lock file, Path and ".lock", for this process alone. It waits for other
// processes. If ctx ends first, it returns the error of ctx.
func (f File) Lock(ctx context.Context) (unlock func(), err error) {
	path := f.Path + ".lock"
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, err
	}
	again := time.NewTicker(pause)
	defer again.Stop()
	for {
		err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil:
			return func() { _ = file.Close() }, nil // a close also releases the lock
		case errors.Is(err, unix.EINTR):
			continue
		case !errors.Is(err, unix.EWOULDBLOCK):
			_ = file.Close() // it was not locked
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		select {
		case <-ctx.Done():
			_ = file.Close() // it was not locked
			return nil, ctx.Err()
		case <-again.C:
		}
	}
}

// Replace replaces the file with a new one of mode 0600, and makes it durable. A reader sees
// the old or the new text, also after a crash. More bytes than Max are Oversized.
func (f File) Replace(text []byte) error {
	if int64(len(text)) > f.Max {
		return f.oversized("would have")
	}
	return ReplaceAs(f.Path, text, func(*os.File) error { return nil })
}

// ReplaceAs puts a new file with that text at path, as File.Replace does. prepare gives
// the new file, which has mode 0600, another mode or owner before it is at path.
func ReplaceAs(path string, text []byte, prepare func(*os.File) error) error {
	dir := filepath.Dir(path)
	tmp, err := os.CreateTemp(dir, "."+filepath.Base(path)+"-*") // 0600
	if err != nil {
		return err
	}
	_, err = tmp.Write(text)
	if err == nil {
		err = prepare(tmp)
	}
	if err == nil {
		err = tmp.Sync()
	}
	err = errors.Join(err, tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(tmp.Name()))
	}
	return SyncDir(dir)
}

// SyncDir makes the names in a directory durable.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
