package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// ensureFile creates a missing database file with mode 0600, so that SQLite never creates it with another mode. The WAL
// and its index take their mode from it. An existing file gets mode 0600.
//
// It never opens a file that exists: closing any descriptor of a database would drop the POSIX locks that this
// process's other connections hold.
func ensureFile(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return createFile(path)
	}
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a regular file", path)
	}
	if info.Mode().Perm() != 0o600 {
		return os.Chmod(path, 0o600)
	}
	return nil
}

// createFile creates an empty file with mode 0600 whatever the umask is, and
// makes its name durable. After an error there is none.
func createFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if err := errors.Join(f.Chmod(0o600), f.Sync(), f.Close(), syncDir(path)); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}
