package state

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"gated/internal/op"
)

// The names in a state directory that this package knows.
const (
	databaseName = "gated.db"
	lockName     = "lock"
)

// BeforeRestore follows the name of a file of the state in that of the one which a
// restore found and keeps.
const BeforeRestore = ".before-restore"

// Options are where the package looks; the zero value is right outside tests.
type Options struct {
	// MachineID lists files of which the first with a machine-id(5) in it is
	// read. Nil means /etc/machine-id, then D-Bus's.
	MachineID []string

	// Stat reads what identifies a file. Nil means statx(2).
	Stat func(path string) (File, error)

	// UID owns the directory. Nil means this process's effective uid.
	UID *uint32

	// Waiting is told the pid of a process that ends, when the lock which it
	// still has is waited for. Nil tells nobody.
	Waiting func(pid int)

	// Patience is how long that is. Zero means two seconds.
	Patience time.Duration
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
	if o.Patience == 0 {
		o.Patience = lockPatience
	}
	return o
}

// Dir is a state directory that passed the checks on its files.
type Dir struct {
	path    string
	options Options
	lock    *os.File // nil if only looked at
}

// Init makes the directory with mode 0700, or takes an empty or so far unused
// one of the caller's, and locks it. Refusals: Conflict if there is a gate in
// it or another process uses it; NotAllowed if others can write there.
func Init(path string, o Options) (*Dir, error) {
	d, err := newDir(path, o)
	if err != nil {
		return nil, err
	}
	if err := d.create(); err != nil {
		return nil, err
	}
	if err := d.checkDirectory(); err != nil {
		return nil, err
	}
	if err := d.takeLock(); err != nil {
		return nil, err
	}
	if _, err := os.Lstat(d.Database()); !errors.Is(err, fs.ErrNotExist) {
		return nil, errors.Join(
			op.Refuse(op.Conflict, "%s holds a gate already", d.path).
				WithHint("start it with: gated serve --state %s; or choose another directory with --state", d.path),
			d.Close())
	}
	return d, nil
}

// Open checks the directory and its files and locks it for this process.
// Refusals: UnknownTarget if no gate is in it, NotAllowed if somebody else
// could have written there, Conflict if another process uses it.
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

// create makes the directory if it is not there. One that is there and empty
// is tightened: people and service managers make them with other modes.
func (d *Dir) create() error {
	if err := os.MkdirAll(filepath.Dir(d.path), 0o700); err != nil {
		return err
	}
	err := os.Mkdir(d.path, 0o700)
	if errors.Is(err, fs.ErrExist) {
		entries, err := os.ReadDir(d.path)
		if err != nil || len(entries) > 0 {
			return err
		}
		if err := d.checkKind(); err != nil {
			return err
		}
	} else if err != nil {
		return err
	}
	return os.Chmod(d.path, 0o700) // whatever the umask left
}

// Path returns the directory's absolute path.
func (d *Dir) Path() string { return d.path }

// Database returns the path of the database in the directory.
func (d *Dir) Database() string { return filepath.Join(d.path, databaseName) }

// Close gives the lock back. The directory stays as it is.
func (d *Dir) Close() error {
	if d.lock == nil {
		return nil
	}
	err := d.lock.Close() // which releases the lock; the file stays, see takeLock
	d.lock = nil
	return err
}
