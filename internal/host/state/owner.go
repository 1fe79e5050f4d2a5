package state

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"gated/internal/base/hostgate"
	"gated/internal/base/op"
	"gated/internal/base/ownfile"
	"gated/internal/base/refusal"
)

// writableByOthers are the mode bits that let other users change a file.
const writableByOthers = 0o022

// checkKind refuses a path that is not a directory of the caller's.
func (d *Dir) checkKind() error {
	info, err := os.Lstat(d.path)
	if errors.Is(err, fs.ErrNotExist) {
		return d.noGate()
	}
	if err != nil {
		return err
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		return refusal.New(refusal.NotAllowed, "the state directory %s is a symbolic link", d.path).
			WithHint("give the directory itself: --state \"$(readlink -f %s)\"", d.path)
	}
	if !info.IsDir() {
		return refusal.New(refusal.NotAllowed, "%s is not a directory", d.path).WithHint("choose another one with --state")
	}
	return d.checkOwner("the state directory "+d.path, d.path, info)
}

// checkDirectory refuses a directory that other users could change.
func (d *Dir) checkDirectory() error {
	if err := d.checkKind(); err != nil {
		return err
	}
	info, err := os.Lstat(d.path)
	if err != nil {
		return err
	}
	if err := checkMode("the state directory "+d.path, d.path, info, "0700"); err != nil {
		return err
	}
	return d.checkAbove()
}

// checkAbove refuses a directory that other users could replace.
func (d *Dir) checkAbove() error {
	return ownfile.StrictModes{UID: *d.options.UID}.CheckAbove(d.path)
}

// checkFiles refuses a database, or a file of SQLite's beside it, that is not a regular file that only the caller can
// change. In a directory that only the caller can change, no file can be replaced afterwards.
func (d *Dir) checkFiles() error {
	for _, name := range []string{DatabaseName, DatabaseName + "-wal", DatabaseName + "-shm", lockName} {
		path := filepath.Join(d.path, name)
		info, err := os.Lstat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist) && name == DatabaseName:
			return d.noGate()
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return err
		}
		if err := d.checkFile(path, info); err != nil {
			return err
		}
	}
	return nil
}

func (d *Dir) checkFile(path string, info fs.FileInfo) error {
	if info.Mode()&fs.ModeSymlink != 0 {
		return refusal.New(refusal.NotAllowed, "%s is a symbolic link", path).
			WithHint("make the directory that holds the file itself the state directory, with --state")
	}
	if !info.Mode().IsRegular() {
		return refusal.New(refusal.NotAllowed, "%s is not an ordinary file", path).
			WithHint("move it away and restore a backup:\n%s", hostgate.Host{}.Restore(d.path))
	}
	// With a second name, two daemons could use one database with two WALs.
	if s, ok := info.Sys().(*syscall.Stat_t); ok && s.Nlink != 1 {
		return refusal.New(refusal.NotAllowed, "%s has %d names (hard links)", path, s.Nlink).
			WithHint("remove the other names; find them with: find / -xdev -samefile %s", op.ShellWords(path))
	}
	if err := d.checkOwner(path, path, info); err != nil {
		return err
	}
	return checkMode(path, path, info, "0600")
}

func (d *Dir) checkOwner(what, path string, info fs.FileInfo) error {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return refusal.New(refusal.Internal, "the owner of %s cannot be read", what)
	}
	if s.Uid != *d.options.UID {
		return refusal.New(refusal.NotAllowed, "%s belongs to uid %d, and gated runs as uid %d", what, s.Uid, *d.options.UID).
			WithHint("%s", d.asOwner(s.Uid, path))
	}
	return nil
}

// asOwner says how to run gated on a path of another uid. It names nobody who should take a path of the host's gate, or of root's,
// because a look at a file does not tell whose the gate is.
func (d *Dir) asOwner(owner uint32, path string) string {
	us := *d.options.UID
	run := fmt.Sprintf("run it as its owner: %sgated ... --state %s", hostgate.As(us, owner), op.ShellWords(d.path))
	take := "if nobody else could write there, as root: chown -h " + ownfile.Name(us) + " " + op.ShellWords(path)
	switch {
	case path != d.path && (us == 0 || d.path == hostgate.StateDir):
		return "if nobody else could write there, give it to the user who runs the gate (User= of its unit), as root: chown -h USER " + op.ShellWords(path)
	case path != d.path:
		return take
	case us == 0 || d.path == hostgate.StateDir:
		return run
	}
	return run + "; or, " + take
}

func checkMode(what, path string, info fs.FileInfo, want string) error {
	if info.Mode().Perm()&writableByOthers != 0 {
		return refusal.New(refusal.NotAllowed, "%s can be changed by others (mode %04o)", what, info.Mode().Perm()).
			WithHint("find out whether others did (gated fsck, gated audit verify), then: %s", op.ShellWords("chmod", want, path))
	}
	return nil
}

// noGate refuses a directory without a database. If a restore put the database aside and was cut off, it says that the
// restore did not finish.
func (d *Dir) noGate() error {
	entries, _ := os.ReadDir(d.path) // if that fails, no name says more
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), DatabaseName+BeforeRestore) {
			return refusal.New(refusal.UnknownTarget,
				"there is no database in %s: a restore did not finish, and put the one that was there aside as %s",
				d.path, e.Name()).WithHint("restore again:\n%s", hostgate.Host{}.Restore(d.path))
		}
	}
	return refusal.New(refusal.UnknownTarget, "there is no gate in %s", d.path).
		WithHint("a new gate: gated init --state %s; or name its directory with --state; one that was there: mount its disk, or restore a backup:\n%s",
			op.ShellWords(d.path), hostgate.Host{}.Restore(d.path))
}

// lockPatience is how long Open waits for the lock of a process that is ending. The kernel releases a killed process's
// locks after it has freed its memory and files, which can take long.
const lockPatience = 2 * time.Second

// awaitLock waits for the lock, at most for patience. It reports whether f has the lock. If not, f is closed, now or
// when the kernel grants the lock after all.
func awaitLock(f *os.File, patience time.Duration) (bool, error) {
	got := make(chan error, 1)
	go func() { got <- blockingLock(f) }()
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case err := <-got:
		if err != nil {
			return false, errors.Join(err, f.Close())
		}
		return true, nil
	case <-late.C:
		go func() { <-got; _ = f.Close() }() // which releases a lock that came too late
		return false, nil
	}
}

func blockingLock(f *os.File) error {
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// ends reports whether a process is gone or must end: it is a zombie, is leaving, or was sent SIGKILL. If that cannot
// be told, the process counts as alive.
func ends(pid int) bool {
	if err := unix.Kill(pid, 0); err != nil {
		return errors.Is(err, unix.ESRCH)
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return errors.Is(err, unix.ESRCH)
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return errors.Is(err, unix.ESRCH)
	}
	return leaving(stat) || killed(status)
}

// exiting is PF_EXITING of the kernel's flags of a process.
const exiting = 0x4

// leaving reads proc_pid_stat(5): state and flags are the first and the seventh field after the name. The name is in
// parentheses and may have some itself.
func leaving(stat []byte) bool {
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 7 {
		return false
	}
	flags, err := strconv.ParseUint(fields[6], 10, 64)
	return strings.Contains("ZXx", fields[0]) || err == nil && flags&exiting != 0
}

// killed reads proc_pid_status(5): whether SIGKILL is pending. For a whole process it stays pending until the process
// is gone.
func killed(status []byte) bool {
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(line, ":")
		if name != "SigPnd" && name != "ShdPnd" {
			continue
		}
		set, err := strconv.ParseUint(strings.TrimSpace(value), 16, 64)
		if err == nil && set&(1<<(unix.SIGKILL-1)) != 0 {
			return true
		}
	}
	return false
}
