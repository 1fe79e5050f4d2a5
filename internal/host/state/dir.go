package state

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"gated/internal/base/crashpoint"
	"gated/internal/base/hostgate"
	"gated/internal/base/op"
	"gated/internal/base/ownfile"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
)

// Options say where the package looks. The zero value is right outside tests.
type Options struct {
	// MachineID lists files; the first one with a machine-id(5) counts. Nil means /etc/machine-id, then D-Bus's.
	MachineID []string

	// Stat reads what identifies a file. Nil means statx(2).
	Stat func(path string) (File, error)

	// UID owns the directory. Nil means this process's effective uid.
	UID *uint32

	// Waiting is called with the pid of a process that is ending, while its lock is waited for. Nil calls nothing.
	Waiting func(pid int)

	// Patience bounds that wait. Zero means two seconds.
	Patience time.Duration

	// Before is called with each path before Init makes it. Nil calls nothing.
	Before func(path string)
}

func (o Options) filled() Options {
	if o.MachineID == nil {
		o.MachineID = []string{"/etc/machine-id", "/var/lib/dbus/machine-id"}
	}
	if o.Stat == nil {
		o.Stat = statFile
	}
	if o.UID == nil {
		uid := uint32(os.Geteuid())
		o.UID = &uid
	}
	if o.Waiting == nil {
		o.Waiting = func(int) {}
	}
	if o.Before == nil {
		o.Before = func(string) {}
	}
	if o.Patience == 0 {
		o.Patience = lockPatience
	}
	return o
}

// Dir is a state directory whose files passed the checks.
type Dir struct {
	path    string
	options Options
	lock    *os.File      // nil for Look
	made    *ownfile.Made // what Init made; nil if the directory existed
}

// Init makes the directory with mode 0700, or takes an empty or unused one of the caller's, and locks it. Conflict: it
// has a gate, or another process uses it. NotAllowed: others can write there, or a file appeared where Init makes one.
// After a refusal, nothing that Init made is left.
func Init(path string, o Options) (*Dir, error) {
	d, err := newDir(path, o)
	if err != nil {
		return nil, err
	}
	if _, err := os.Lstat(d.path); err == nil {
		if err := d.checkKind(); err != nil {
			return nil, err
		}
	}
	if d.made, err = (ownfile.StrictModes{UID: *d.options.UID}).MakeDir(d.path, d.options.Before); err != nil {
		return nil, err
	}
	if err := d.begin(); err != nil {
		return nil, errors.Join(err, d.TakeBack())
	}
	return d, nil
}

// begin tightens and locks the directory that Init opened.
func (d *Dir) begin() error {
	if err := d.tighten(); err != nil {
		return err
	}
	if err := d.made.Still(); err != nil {
		return err
	}
	if err := d.checkDirectory(); err != nil {
		return err
	}
	d.options.Before(filepath.Join(d.path, lockName))
	if err := d.takeLock(); err != nil {
		return err
	}
	_, err := os.Lstat(d.Database())
	switch {
	case store.Blank(d.Database()):
		return NotNew(d.path, "is empty")
	case !errors.Is(err, fs.ErrNotExist):
		return refusal.New(refusal.Conflict, "%s holds a gate already", d.path).
			WithHint("start it: systemctl start gated where that unit serves it, else gated serve --state %s; or choose another directory with --state", op.ShellWords(d.path))
	}
	return d.made.Still()
}

// NotNew refuses to make a gate in a directory whose database is what only a loss, or a making that was cut off, explains.
func NotNew(dir, what string) error {
	return refusal.New(refusal.Conflict, "%s %s: gated init was cut off, or the database is lost", filepath.Join(dir, DatabaseName), what).
		WithHint("%s; if there was one, restore a backup:\n%s", NeverRan, hostgate.Host{}.Restore(dir))
}

// NeverRan says how to go on after a making that was cut off. It names no file to remove, because there may have been a gate.
const NeverRan = "if no gate ever ran there, move the files of that directory away and make it again (gated setup, init or join)"

// TakeBack removes the directories that Init made, and the lock in the last of them. It releases the lock when nothing
// that it guards is left. A directory with any other file stays. If the directory existed before Init, TakeBack is
// Close.
func (d *Dir) TakeBack() error {
	if d.made == nil {
		return d.Close()
	}
	var err error
	if d.made.WasMade() {
		err = d.made.Remove(lockName)
	}
	err = errors.Join(err, d.made.TakeBack())
	d.made = nil
	return errors.Join(err, d.Close())
}

// Create makes a file in a directory that Init made: 0600, and not through a link. fs.ErrExist: the name exists.
func (d *Dir) Create(name string) (*os.File, error) {
	d.options.Before(filepath.Join(d.path, name))
	return d.made.Create(name)
}

// Remove removes a file of a directory that Init made.
func (d *Dir) Remove(name string) error { return d.made.Remove(name) }

// Still refuses, as NotAllowed, a directory whose path now leads elsewhere, or whose files no longer pass Open's
// checks.
func (d *Dir) Still() error {
	if err := d.made.Still(); err != nil {
		return err
	}
	return d.checkFiles()
}

// Open checks the directory and its files, and locks it for this process. Refusals: UnknownTarget if it has no gate,
// NotAllowed if another user could have written there, Conflict if another process uses it.
func Open(path string, o Options) (*Dir, error) {
	d, err := Look(path, o)
	if err != nil {
		return nil, err
	}
	if err := d.takeLock(); err != nil {
		return nil, err
	}
	return d, nil
}

// Look is Open without the lock, for reading beside a running daemon.
func Look(path string, o Options) (*Dir, error) {
	d, err := newDir(path, o)
	if err != nil {
		return nil, err
	}
	if err := d.checkDirectory(); err != nil {
		return nil, err
	}
	if err := d.checkFiles(); err != nil {
		return nil, err
	}
	return d, nil
}

func newDir(path string, o Options) (*Dir, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("the state directory's path: %w", err)
	}
	return &Dir{path: abs, options: o.filled()}, nil
}

// tighten makes a new or empty directory its owner's alone, because people and service managers make them with other
// modes. Others could have put files into it until then, so it is checked again.
func (d *Dir) tighten() error {
	dir := d.made.Dir()
	entries, err := dir.ReadDir(1)
	if len(entries) > 0 {
		return nil
	}
	if !errors.Is(err, io.EOF) {
		return err
	}
	if err := dir.Chmod(0o700); err != nil {
		return err
	}
	if _, err := dir.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if entries, err = dir.ReadDir(1); len(entries) > 0 {
		at := filepath.Join(d.path, entries[0].Name())
		return refusal.New(refusal.NotAllowed, "%s appeared while the state directory was made", at).
			WithHint("find out who made it, and choose another directory with --state")
	}
	if !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// Path returns the directory's absolute path.
func (d *Dir) Path() string { return d.path }

// Database returns the path of the database in the directory.
func (d *Dir) Database() string { return filepath.Join(d.path, DatabaseName) }

// Close releases the lock. It does not change the directory.
func (d *Dir) Close() error {
	var err error
	if d.made != nil {
		err, d.made = d.made.Close(), nil
	}
	if d.lock != nil {
		// A close alone would leave the lock with a child that was forked and does not run its program yet. The file stays,
		// see takeLock.
		err = errors.Join(err, unix.Flock(int(d.lock.Fd()), unix.LOCK_UN), d.lock.Close())
		d.lock = nil
	}
	return err
}

// The names of the files in a state directory.
const (
	SettingsName = "gated.yaml"      // the configuration
	SignersName  = "allowed_signers" // the list of signers, as the gate shows it
	RevokedName  = "revoked"         // keys that no longer count, unless the configuration names another file
	DatabaseName = "gated.db"
	GuestsName   = "guests"   // of the local driver, unless the configuration names another directory
	KeyName      = "gate.key" // signs the heads of the audit log; it is in no backup
	ReserveName  = "reserve"  // disk space that is freed for signed work
	lockName     = "lock"
)

const (
	// BackupPrefix begins the name of a directory in which a backup is made.
	BackupPrefix = ".backup-"
	// Restoring ends the name of the database that a restore makes ready.
	Restoring = ".restoring"
	// BeforeRestore ends the name of each file of the old state that a restore keeps.
	BeforeRestore = ".before-restore"
)

// File identifies a file apart from its name.
type File struct {
	Inode uint64
	Birth int64 // birth time, in ns since 1970; 0 if the file system does not record it
}

// statFile reads File by path with statx(2). It opens nothing, because closing a descriptor of a database would drop
// SQLite's locks on it.
func statFile(path string) (File, error) {
	var s unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_INO|unix.STATX_BTIME, &s)
	if err != nil {
		return File{}, fmt.Errorf("statx %s: %w", path, err)
	}
	f := File{Inode: s.Ino}
	if s.Mask&unix.STATX_BTIME != 0 {
		f.Birth = s.Btime.Sec*1_000_000_000 + int64(s.Btime.Nsec)
	}
	return f, nil
}

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
