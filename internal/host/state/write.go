package state

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"gated/internal/base/crashpoint"
	"gated/internal/base/ownfile"
	"gated/internal/base/refusal"
)

// ReplaceFile replaces a file with these bytes, 0600 and on disk. A reader sees the whole old or the whole new file.
func ReplaceFile(path string, text []byte) error {
	tmp := path + ".tmp"
	if err := os.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err := Written(tmp, f, text, err); err != nil {
		if f != nil {
			_ = os.Remove(tmp)
		}
		return err
	}
	crashpoint.Here(crashpoint.StateFileStaged)
	if err := os.Rename(tmp, path); err != nil {
		return err
	}
	crashpoint.Here(crashpoint.StateFilePlaced)
	return ownfile.SyncDir(filepath.Dir(path))
}

// Written writes and closes a new file; err is the error of its opening. A file that exists already is a Conflict.
func Written(path string, f *os.File, text []byte, err error) error {
	if errors.Is(err, fs.ErrExist) {
		return refusal.New(refusal.Conflict, "%s exists already", path).
			WithHint("init writes this file itself; move yours away, and put what you need of it back afterwards")
	}
	if err != nil {
		return refusal.New(refusal.BadParams, "the state directory cannot be written: %v", err)
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Chmod(0o600), f.Sync(), f.Close())
}

// ReadBounded reads a regular file. It reads at most limit bytes and one more, which shows that the file is too large.
// It does not follow a link at the file's own name. A file that others could have written is NotAllowed.
func ReadBounded(own ownfile.StrictModes, path string, limit int64) ([]byte, error) {
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
