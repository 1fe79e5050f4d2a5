package state

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"gated/internal/op"
)

// takeLock makes this process the only one that uses the directory, for as
// long as it lives: the kernel gives the lock back when it dies. The file is
// never removed, since a process could then lock a file without a name while
// another locks a new one.
//
// The lock is on a file of its own: SQLite has locks on the database that
// closing any descriptor of it would drop.
func (d *Dir) takeLock() error {
	path := filepath.Join(d.path, lockName)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return fmt.Errorf("lock the state directory: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		defer f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return d.taken(f)
		}
		return fmt.Errorf("lock the state directory: %w", err)
	}
	// For people only; the lock itself is what counts.
	if err := writePID(f); err != nil {
		return errors.Join(fmt.Errorf("lock the state directory: %w", err), f.Close())
	}
	d.lock = f
	return nil
}

func writePID(f *os.File) error {
	if err := errors.Join(f.Chmod(0o600), f.Truncate(0)); err != nil {
		return err
	}
	_, err := f.WriteAt(fmt.Appendf(nil, "%d\n", os.Getpid()), 0)
	return err
}

// taken says who has the lock.
func (d *Dir) taken(f *os.File) error {
	who := "another process"
	b, err := io.ReadAll(io.LimitReader(f, 32))
	if pid := strings.TrimSpace(string(b)); err == nil && pid != "" && strings.Trim(pid, "0123456789") == "" {
		who = "the process with pid " + pid
	}
	return op.Refuse(op.Conflict, "%s uses the state directory %s", who, d.path).
		WithHint("stop it first; gated status shows whether it answers")
}
