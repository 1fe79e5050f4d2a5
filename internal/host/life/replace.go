package life

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"gated/internal/base/crashpoint"
	"gated/internal/base/ownfile"
	"gated/internal/base/refusal"
	"gated/internal/host/signers"
	"gated/internal/host/state"
)

// replaceDatabase keeps the database under a name of its own and puts fresh in
// its place, and returns that name, "" if there was none. Cut off in between, it
// leaves no database, which nothing starts on; Restore looks then at the one
// that was put aside.
func replaceDatabase(path, fresh string) (kept string, err error) {
	old, err := keptName(path)
	if err != nil {
		return "", err
	}
	if exists(path) || hasLog(path) {
		kept = old
	}
	if err := moveAside(path, old); err != nil {
		return "", err
	}
	crashpoint.Here(crashpoint.RestoreEmpty)
	if err := os.Rename(fresh, path); err != nil {
		return "", fmt.Errorf("put the backup in place (the old database is %s): %w", old, err)
	}
	crashpoint.Here(crashpoint.RestorePlaced)
	return kept, ownfile.SyncDir(filepath.Dir(path))
}

// moveAside renames a database, its log and the log's index, where they are. The
// database goes before its log, without which it would start as if the newest
// decisions had never been; and the log before the new database, to which SQLite
// would apply it.
func moveAside(path, kept string) error {
	for _, suffix := range []string{"", "-wal", "-shm"} {
		err := os.Rename(path+suffix, kept+suffix)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("keep the old database: %w", err)
		}
		crashpoint.Here(crashpoint.RestoreAside)
	}
	return nil
}

// unused returns path, or path with the first number that makes it a name that
// neither a database nor a log of one has.
func unused(path string) (string, error) {
	for i, name := 2, path; ; i++ {
		taken := false
		for _, suffix := range []string{"", "-wal", "-shm"} {
			_, err := os.Lstat(name + suffix)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return "", err
			}
			taken = taken || err == nil
		}
		if !taken {
			return name, nil
		}
		name = path + "-" + strconv.Itoa(i)
	}
}

// keptName returns the name under which a database is put aside: a new one, or
// that of the database whose log is still here, since a restore was cut off
// between the two.
func keptName(path string) (string, error) {
	free, err := unused(path + state.BeforeRestore)
	if err != nil || exists(path) || !hasLog(path) {
		return free, err
	}
	last, err := newestKept(path, func(name string) bool { return !hasLog(name) })
	if err != nil || last == "" {
		return free, err
	}
	return last, nil
}

// newestKept returns the name of the database that was put aside last, of those
// that may be it, and "" if there is none. Its number does not say: a name is
// used again when somebody took its file away. When it was renamed does.
func newestKept(path string, may func(name string) bool) (last string, err error) {
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return "", err
	}
	at := time.Time{}
	for _, e := range entries {
		number, kept := strings.CutPrefix(e.Name(), filepath.Base(path)+state.BeforeRestore)
		if !kept || number != "" && (number[0] != '-' || strings.Trim(number[1:], "0123456789") != "") {
			continue
		}
		name := filepath.Join(filepath.Dir(path), e.Name())
		info, err := os.Lstat(name)
		if err != nil {
			return "", err
		}
		st, ok := info.Sys().(*syscall.Stat_t)
		if !ok || !may(name) {
			continue
		}
		if renamed := time.Unix(st.Ctim.Unix()); last == "" || renamed.After(at) {
			last, at = name, renamed
		}
	}
	return last, nil
}

// finishAside has the log of a database that was put aside follow it, where a
// restore was cut off between the two: without it the database lacks its newest
// entries. It returns the database's name, "" if there was nothing to do.
func finishAside(path string) (kept string, err error) {
	if exists(path) || !hasLog(path) {
		return "", nil
	}
	kept, err = keptName(path)
	if err != nil || !exists(kept) {
		return "", err // a log alone: its database is lost
	}
	return kept, moveAside(path, kept)
}

// hasLog reports whether there is a log beside a database with anything in it:
// who only read it leaves an empty one.
func hasLog(path string) bool {
	info, err := os.Lstat(path + "-wal")
	return err == nil && info.Size() > 0
}

// exists reports whether a name is taken, or may be.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// copyDatabase copies a database, with the log beside it that has the newest
// entries of one that was put aside, to a name that nothing has. What is no
// ordinary file is BadParams: beside a symbolic link there would be no log.
func copyDatabase(from, to string) error {
	for _, suffix := range []string{"", "-wal"} {
		err := copyNew(from+suffix, to+suffix)
		if err != nil && (suffix == "" || !errors.Is(err, fs.ErrNotExist)) {
			return refusal.New(refusal.BadParams, "the backup %s cannot be read: %v", from, err)
		}
	}
	return nil
}

// openOrdinary opens an ordinary file to read; a symbolic link, a directory or
// a pipe is an error, and never waited for.
func openOrdinary(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if errors.Is(err, syscall.ELOOP) {
		return nil, fmt.Errorf("%s is a symbolic link: name the file itself", path)
	}
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not an ordinary file", path)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// copyNew copies an ordinary file to one that must not exist, 0600 and on disk.
func copyNew(from, to string) error {
	in, err := openOrdinary(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Sync(), out.Close())
}

// lookBack reads what the database at path says of signers. If there is none, it
// reads the one that was put aside last: a restore was cut off between taking it
// away and putting another in its place, or the database is lost, and then that
// one still knows of keys that were removed. It does not ask the copy that such a
// restore had made ready: that may be the backup as it was copied.
func lookBack(ctx context.Context, path string) (signers.Former, error) {
	if !exists(path) {
		aside, err := newestKept(path, func(string) bool { return true })
		if err != nil || aside == "" {
			return signers.Former{}, err
		}
		path = aside
	}
	return signers.ReadFormer(ctx, path, len(Migrations())), nil
}
