package local

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/seccomp"
	"gated/internal/driver"

	"golang.org/x/sys/unix"
)

// Driver is the local driver. It is safe for concurrent use.
type Driver struct {
	cfg       Config
	root      *dir
	trash     *dir
	accounts  map[string]account // by command name
	uids      *guestUIDs
	ops       []string // the operations that have a preparer
	cgroups   cgroups
	landlock  int // the kernel's ABI; 0 means none
	seccomp   bool
	reflinks  bool
	entries   int64 // the most entries that a snapshot may have
	mountinfo func() ([]byte, error)
	procs     processes
	lost      lostGuests
	seek      *seeker
	uuids     uuidIndex
	names     nameLocks
	sweeping  sync.Mutex
}

var _ driver.Backend = (*Driver)(nil)

// New opens the root and repairs it. It finds running processes again and removes what a crash
// left. It refuses a root that is a symlink, belongs to another user, is open to others, or is
// on a file system without birth times. It also refuses a command that could not run.
func New(cfg Config) (*Driver, error) {
	if err := cfg.setDefaults(); err != nil {
		return nil, err
	}
	accounts, err := checkCommands(cfg.Commands)
	if err != nil {
		return nil, err
	}
	root, err := openGuests(cfg.Root)
	if err != nil {
		return nil, err
	}
	d := &Driver{cfg: cfg, root: root, accounts: accounts, ops: sortedKeys(preparers), cgroups: openCgroups(cfg.CgroupRoot),
		landlock: cfg.landlockABI(), seccomp: seccomp.Supported() && !cfg.without.seccomp, entries: maxSnapshotEntries, mountinfo: readMountinfo, procs: processes{byInc: map[op.Incarnation]*process{}}, seek: newSeeker()}
	if d.uids, err = openUIDs(root, cfg.GuestUIDs); err == nil {
		d.trash, err = root.ensure(trashDir)
	}
	if err != nil {
		root.close()
		return nil, err
	}
	d.reflinks = canReflink(d.trash)
	if err := d.recover(context.Background()); err != nil {
		return nil, fmt.Errorf("guests in %s: %w", cfg.Root, joinClose(err, d))
	}
	return d, nil
}

func joinClose(err error, d *Driver) error {
	d.Close()
	return err
}

// openGuests opens the root and makes it if it is missing. The path must be the real one,
// because it is compared with the mount table.
func openGuests(path string) (*dir, error) {
	if !filepath.IsAbs(path) {
		return nil, refusal.New(refusal.BadParams, "local.root %q is not an absolute path", path)
	}
	if err := os.Mkdir(path, 0o700); err != nil && !os.IsExist(err) {
		return nil, fmt.Errorf("local.root: %w", err)
	}
	info, err := os.Lstat(path)
	if err != nil {
		return nil, fmt.Errorf("local.root: %w", err)
	}
	if !info.IsDir() {
		return nil, refusal.New(refusal.Conflict, "local.root %s is not a directory (a symlink is not followed)", path)
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, fmt.Errorf("local.root: %w", err)
	}
	root, err := openDir(real)
	if err != nil {
		return nil, fmt.Errorf("local.root: %w", err)
	}
	e, err := root.self()
	if err == nil && (int(e.uid) != os.Geteuid() || e.mode&0o077 != 0) {
		err = refusal.New(refusal.Conflict, "local.root %s has mode %#o and belongs to uid %d", real, e.mode&0o7777, e.uid).
			WithHint("chown it to the daemon's user and chmod 0700 it")
	}
	if err == nil && unix.Flock(root.fd(), unix.LOCK_EX|unix.LOCK_NB) != nil {
		err = refusal.New(refusal.Conflict, "local.root %s is in use by another daemon", real).
			WithHint("give each gate a root of its own")
	}
	if err != nil {
		root.close()
		return nil, err
	}
	return root, nil
}

// ensure opens a directory. If the directory is missing, ensure makes it with mode 0700.
func (d *dir) ensure(name string) (*dir, error) {
	if err := unix.Mkdirat(d.fd(), name, 0o700); err != nil && err != unix.EEXIST {
		return nil, &os.PathError{Op: "mkdir", Path: d.path() + "/" + name, Err: err}
	}
	return d.sub(name)
}

// canReflink tries if files can share blocks. If they can, a snapshot needs no room.
func canReflink(d *dir) bool {
	const a, b = stagePrefix + "reflink-a", stagePrefix + "reflink-b"
	const flags = unix.O_RDWR | unix.O_CREAT | unix.O_TRUNC
	src, err := d.open(a, flags, 0o600)
	if err != nil {
		return false
	}
	defer func() { _ = src.Close(); _ = d.unlink(a, 0) }()
	dst, err := d.open(b, flags, 0o600)
	if err != nil {
		return false
	}
	defer func() { _ = dst.Close(); _ = d.unlink(b, 0) }()
	if _, err := src.Write(make([]byte, 4096)); err != nil {
		return false
	}
	return unix.IoctlFileClone(int(dst.Fd()), int(src.Fd())) == nil
}

// Close closes the root. Guests' processes go on, and the next New finds them.
func (d *Driver) Close() error {
	d.procs.mu.Lock()
	for _, p := range d.procs.byInc {
		p.Close()
	}
	d.procs.mu.Unlock()
	d.procs.wg.Wait()
	d.trash.close()
	d.root.close()
	return nil
}

// Task reports that there is no such task, because all work of this driver is done when an
// action returns.
func (d *Driver) Task(_ context.Context, task string) (driver.Progress, error) {
	return driver.Progress{}, refusal.New(refusal.UnknownTarget, "the local driver has no task %q", task)
}
