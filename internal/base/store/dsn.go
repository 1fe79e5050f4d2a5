package store

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
)

// access says what a connection may do.
type access int

const (
	readOnly access = iota // snapshots of what is committed
	probe                  // like readOnly, before the file is known to be a gate's
	mending                // undoes a change that was cut off, and changes nothing else
	writing                // the one writer
	applying               // writes the rows of another machine, cascades included: SQLite must not run them again
)

// applicationID marks the file as a gate's (PRAGMA application_id): "gate".
const applicationID = 0x67617465

// busyMillis is how long a connection waits for a lock that another process
// holds, for example a backup program.
const busyMillis = "5000"

// pragma is a setting in the DSN, so that it holds on every connection. It is also read back, because SQLite silently
// accepts misspelt names and impossible values.
type pragma struct{ name, set, want string }

func pragmas(a access) []pragma {
	enforced := "1"
	if a == applying {
		enforced = "0"
	}
	list := []pragma{
		{"busy_timeout", busyMillis, busyMillis},
		{"foreign_keys", enforced, enforced},
		{"trusted_schema", "0", "0"},
	}
	switch a {
	case writing, applying:
		return append(list,
			pragma{"journal_mode", "wal", "wal"},
			pragma{"synchronous", "full", "2"},
			// Otherwise each savepoint would store the pages that it changes in a file.
			pragma{"temp_store", "2", "2"},
			// Without a limit the WAL keeps the size of its largest burst.
			pragma{"journal_size_limit", "33554432", "33554432"})
	case readOnly:
		return append(list, pragma{"query_only", "1", "1"})
	default:
		return list
	}
}

// dsn builds the driver's name for the database at an absolute path. It escapes the path as a URI: a bare ? would begin
// the parameters and a bare % an escape, and both would silently open another file.
func dsn(path string, a access) string {
	v := url.Values{}
	v.Set("mode", "ro")
	if a == writing || a == mending || a == applying {
		v.Set("mode", "rw") // never rwc: the store creates the file, with its own mode
	}
	for _, p := range pragmas(a) {
		v.Add("_pragma", p.name+"("+p.set+")")
	}
	u := url.URL{Scheme: "file", Path: path, RawQuery: v.Encode()}
	return u.String()
}

// readBack checks that every pragma took effect.
func (s *session) readBack(a access) error {
	for _, p := range pragmas(a) {
		var got string
		if err := s.one(noDeadline, "PRAGMA "+p.name, &got); err != nil {
			return fmt.Errorf("read back pragma %s: %w", p.name, err)
		}
		if got != p.want {
			return fmt.Errorf("pragma %s is %s, not %s", p.name, got, p.want)
		}
	}
	return nil
}

// keepLog refuses, as ErrCorrupt, a database without a byte whose log has some: the newest entries are in the log, and SQLite
// deletes it at the first look, even on a connection that cannot write.
func keepLog(path string) error {
	if !HasLog(path) { // it is asked first: a log begins after its database
		return nil
	}
	if info, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) || err == nil && blank(info) {
		return fmt.Errorf("the file is empty or gone, and its log %s-wal is not: %w", path, ErrCorrupt)
	}
	return nil
}

// blank reports whether SQLite says that a file is empty. It says so of one of a single byte (unixFileSize in os_unix.c).
func blank(info fs.FileInfo) bool { return info.Size() <= 1 }

// Blank reports whether there is a database file at a path without anything in it or in its log: its making was cut off, or it is
// lost.
func Blank(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && blank(info) && !HasLog(path)
}

// HasLog reports whether the log of a database at a path has anything in it. Who only read the database leaves an empty one.
func HasLog(path string) bool {
	log, err := os.Lstat(path + "-wal")
	return err == nil && log.Size() > 0
}

// ensureFile creates a missing database file with mode 0600, so that SQLite never creates it with another mode. The WAL
// and its index take their mode from it. An existing file gets mode 0600.
//
// It never opens a file that exists: closing any descriptor of a database would drop the POSIX locks that this
// process's other connections hold.
func ensureFile(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err := keepLog(path); err != nil {
			return err
		}
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
