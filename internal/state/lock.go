package state

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"gated/internal/op"
)

// takeLock makes this process the only one that uses the directory, for as
// long as it lives: the kernel gives the lock back when it dies. The file is
// never removed, since a process could then lock a file without a name while
// another locks a new one.
//
// One that was killed a moment ago may still have it: a start right after waits
// for that, and for nothing that lives.
//
// The lock is on a file of its own: SQLite has locks on the database that
// closing any descriptor of it would drop.
func (d *Dir) takeLock() error {
	f, err := d.openLock()
	if errors.Is(err, op.NotAllowed) {
		return err
	}
	if err != nil {
		return fmt.Errorf("lock the state directory: %w", err)
	}
	// Before anything is written to it: it might be another name of another file.
	info, err := f.Stat()
	if err == nil {
		err = d.checkFile(f.Name(), info)
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	if err := d.lockOrWait(f); err != nil {
		return err
	}
	// For people only; the lock itself is what counts.
	if err := writePID(f); err != nil {
		return errors.Join(fmt.Errorf("lock the state directory: %w", err), f.Close())
	}
	d.lock = f
	return nil
}

func (d *Dir) openLock() (*os.File, error) {
	if d.made != nil {
		return d.made.Open(lockName)
	}
	return os.OpenFile(filepath.Join(d.path, lockName), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
}

func writePID(f *os.File) error {
	if err := errors.Join(f.Chmod(0o600), f.Truncate(0)); err != nil {
		return err
	}
	_, err := f.WriteAt(fmt.Appendf(nil, "%d\n", os.Getpid()), 0)
	return err
}

// lockOrWait takes the lock at once, or waits for it where its holder ends. The
// file is closed if it is not had.
func (d *Dir) lockOrWait(f *os.File) error {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		return nil
	}
	if !errors.Is(err, unix.EWOULDBLOCK) {
		return errors.Join(fmt.Errorf("lock the state directory: %w", err), f.Close())
	}
	pid := holder(f)
	if pid == 0 || !ends(pid) {
		return errors.Join(d.taken(pid), f.Close())
	}
	d.options.Waiting(pid)
	ok, err := awaitLock(f, d.options.Patience)
	if err != nil {
		return fmt.Errorf("lock the state directory: %w", err)
	}
	if !ok {
		return op.Refuse(op.Conflict, "the process with pid %d had the state directory %s and has ended, or is about to, but the lock "+
			"was not given back within %s", pid, d.path, d.options.Patience).
			WithHint("another process may have it now; fuser -v %s names it; try again when it is gone", filepath.Join(d.path, lockName))
	}
	return nil
}

// holder is the pid that the file names, 0 if none.
func holder(f *os.File) int {
	b, err := io.ReadAll(io.LimitReader(f, 32))
	if err != nil {
		return 0
	}
	pid, err := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 31)
	if err != nil {
		return 0
	}
	return int(pid)
}

// taken says who has the lock.
func (d *Dir) taken(pid int) error {
	who := "another process"
	if pid != 0 {
		who = fmt.Sprintf("the process with pid %d", pid)
	}
	return op.Refuse(op.Conflict, "%s uses the state directory %s", who, d.path).
		WithHint("stop it first; gated status shows whether it answers")
}
