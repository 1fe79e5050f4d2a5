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

	"gated/internal/base/refusal"
)

// takeLock makes this process the only user of the directory for as long as it lives: the kernel releases the lock when
// it dies. The file is never removed, or one process could lock the removed file while another locks a new one.
//
// A process that was killed a moment ago may still have the lock. takeLock waits for such a process, but not for one
// that lives.
//
// The lock is on a file of its own: SQLite has locks on the database that closing any descriptor of it would drop.
func (d *Dir) takeLock() error {
	f, err := d.openLock()
	if errors.Is(err, refusal.NotAllowed) {
		return err
	}
	if err != nil {
		return fmt.Errorf("lock the state directory: %w", err)
	}
	// This check is before the first write, because the file may be another file's second name.
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
	// The pid is only for people; the lock counts.
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

// lockOrWait takes the lock, or waits for it if its holder is ending. If it fails, it closes the file.
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
		return refusal.New(refusal.Conflict,
			"the process with pid %d had the state directory %s and has ended, or is about to, but the lock "+
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

// taken is the refusal that names the lock's holder.
func (d *Dir) taken(pid int) error {
	who := "another process"
	if pid != 0 {
		who = fmt.Sprintf("the process with pid %d", pid)
	}
	return refusal.New(refusal.Conflict, "%s uses the state directory %s", who, d.path).
		WithHint("stop it first; gated status shows whether it answers")
}
