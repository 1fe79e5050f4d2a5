package client

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"gated/internal/op"
)

// read returns the file's text; none if there is no file. It never waits for
// anybody: a pipe in the file's place is refused as any other file that is none.
func (f KnownGates) read() ([]byte, error) {
	if f.Path == "" {
		return nil, nil
	}
	if err := f.checkDir(); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(f.Path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	switch {
	case absent(f.Path, err):
		return nil, nil
	case errors.Is(err, syscall.ELOOP):
		return nil, op.Refuse(op.NotAllowed, "%s is a symbolic link, and opsign writes a file of its own", f.Path).
			WithHint("put the file itself there; to have it elsewhere, set XDG_CONFIG_HOME")
	case err != nil:
		return nil, op.Refuse(op.NotAllowed, "the gates that are known cannot be read: %v", err)
	}
	defer func() { _ = file.Close() }() // nothing was written
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, op.Refuse(op.NotAllowed, "%s is not an ordinary file", f.Path).WithHint("find out whose it is, and move it away")
	}
	if err := own(f.Path, info); err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(file, maxKnown+1))
	if err == nil && len(text) > maxKnown {
		err = op.Refuse(op.Oversized, "%s has more than %d bytes", f.Path, maxKnown)
	}
	return text, err
}

// checkDir refuses a directory in which another could put a file in the place of
// this one.
func (f KnownGates) checkDir() error {
	dir := filepath.Dir(f.Path)
	info, err := os.Stat(dir)
	switch {
	case absent(dir, err):
		return nil
	case err != nil:
		return op.Refuse(op.NotAllowed, "the gates that are known cannot be read: %v", err)
	}
	return own(dir, info)
}

// own refuses what is neither the user's nor root's, or what others may write.
func own(path string, info fs.FileInfo) error {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return op.Refuse(op.NotAllowed, "the owner of %s is not known, so that it proves nothing", path)
	}
	if uid := os.Geteuid(); st.Uid != 0 && int(st.Uid) != uid {
		return op.Refuse(op.NotAllowed, "%s belongs to %s, who is neither root nor you (uid %d), so that it proves nothing", path, named(st.Uid), uid).
			WithHint("look at what is in it, then move it away; or set XDG_CONFIG_HOME to a directory of your own")
	}
	if info.Mode().Perm()&0o022 != 0 {
		return op.Refuse(op.NotAllowed, "%s may be written by others, so that it proves nothing", path).
			WithHint("look at what is in it, then chmod go-w %s", path)
	}
	return nil
}

// absent reports whether an error of opening a path says that nothing can have
// been pinned there: there is no such path, or it is below a directory that this
// user may not look into, another's home.
func absent(path string, err error) bool {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return true
	}
	if errors.Is(err, fs.ErrPermission) {
		_, err := os.Lstat(path)
		return errors.Is(err, fs.ErrPermission)
	}
	return false
}

// lock takes a lock file for this process alone, and waits for it: whoever has
// it rewrites one small file, and asks nobody anything meanwhile.
func lock(path string) (unlock func(), err error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err = unix.Flock(int(file.Fd()), unix.LOCK_EX)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		_ = file.Close() // it was not locked
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return func() { _ = file.Close() }, nil // which also ends the lock
}
