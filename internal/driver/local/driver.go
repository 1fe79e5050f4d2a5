package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"gated/internal/base/crashpoint"
	"gated/internal/base/op"
	"gated/internal/base/proc"
	"gated/internal/base/refusal"
	"gated/internal/base/seccomp"
	"gated/internal/driver"
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
	for _, p := range d.procs.byInc {
		p.tie.close()
	}
	d.lost.close()
	d.trash.close()
	_ = unix.Flock(d.root.fd(), unix.LOCK_UN) // a child that does not run its program yet would keep it
	d.root.close()
	return nil
}

// Task reports that there is no such task, because all work of this driver is done when an
// action returns.
func (d *Driver) Task(_ context.Context, task string) (driver.Progress, error) {
	return driver.Progress{}, refusal.New(refusal.UnknownTarget, "the local driver has no task %q", task)
}

// lowSpace is the free room of the root's file system, and its free inodes, below which Check
// warns, in percent. Snapshots and the trash need some.
const lowSpace = 5

// Name returns "local".
func (*Driver) Name() string { return "local" }

// Check looks at the root, at its file system, and at the layers that guard guests' processes
// on this machine.
func (d *Driver) Check(context.Context) []driver.Finding {
	out := append([]driver.Finding{d.checkRoot(), d.checkSpace()}, d.checkLayers()...)
	s := d.Status()
	if d.cgroups.memory && d.cgroups.cpu {
		out = append(out, driver.Finding{What: "limits", State: driver.OK, Detail: "memory and CPUs are limited by cgroups"})
	} else {
		out = append(out, driver.Finding{What: "limits", State: driver.Note,
			Detail: fmt.Sprintf("memory is limited by %s, CPUs by %s: %s", s.Memory, s.CPUs, d.cgroups.why),
			Hint:   "name a cgroup v2 directory that the daemon may make groups in: local: {cgroup: /sys/fs/cgroup/gated}"})
	}
	return out
}

// checkRoot looks at the directory that the driver holds open. The directory must still be in
// its place, and only the daemon may have access.
func (d *Driver) checkRoot() driver.Finding {
	f := driver.Finding{What: "root", State: driver.Bad, Hint: "put it back as it was, and restart the daemon"}
	held, err := d.root.self()
	if err != nil {
		f.Detail = fmt.Sprintf("%s cannot be looked at: %v", d.cfg.Root, err)
		return f
	}
	var at unix.Stat_t
	switch err := unix.Stat(d.cfg.Root, &at); {
	case err != nil:
		f.Detail = fmt.Sprintf("%s is not there any more: %v", d.cfg.Root, err)
	case at.Ino != held.ino:
		f.Detail = fmt.Sprintf("%s is another directory than the one that the daemon holds", d.cfg.Root)
	case held.mode&0o077 != 0:
		f.Detail, f.Hint = fmt.Sprintf("%s is open to others: mode %#o", d.cfg.Root, held.mode&0o7777), "chmod 0700 "+d.cfg.Root
	default:
		f = driver.Finding{What: "root", State: driver.OK, Detail: d.cfg.Root + ", snapshots are full copies"}
		if d.reflinks {
			f.Detail = d.cfg.Root + ", snapshots share blocks"
		}
	}
	return f
}

// checkSpace reports the free room for guests' data.
func (d *Driver) checkSpace() driver.Finding {
	f := driver.Finding{What: "free space", State: driver.OK}
	var st unix.Statfs_t
	if err := unix.Fstatfs(d.root.fd(), &st); err != nil {
		f.State, f.Detail = driver.Bad, fmt.Sprintf("cannot be told: %v", err)
		return f
	}
	f.Detail = fmt.Sprintf("%d MiB of %d MiB", st.Bavail*uint64(st.Bsize)>>20, st.Blocks*uint64(st.Bsize)>>20)
	full := st.Bavail*100 < st.Blocks*lowSpace
	if st.Files > 0 {
		f.Detail += fmt.Sprintf(", %d of %d inodes", st.Ffree, st.Files)
		full = full || st.Ffree*100 < st.Files*lowSpace
	}
	switch {
	case st.Flags&unix.ST_RDONLY != 0:
		f.State, f.Hint = driver.Bad, "the file system is mounted read-only: mount it read-write"
	case full:
		f.State, f.Hint = driver.Note, "make room: a snapshot is a copy, and what was destroyed stays for local.trash_keep"
	}
	return f
}

// Prepare locks the guest's name and refuses a step that cannot work. Its action runs to its
// end and never leaves a task.
func (d *Driver) Prepare(ctx context.Context, step op.Step, cleanup func(func())) (op.Observed, driver.Action, error) {
	now, do, err := d.prepare(ctx, step, cleanup)
	return now, driver.Does(do), err
}

func (d *Driver) prepare(ctx context.Context, step op.Step, cleanup func(func())) (
	now op.Observed, do driver.Work, err error) {
	prepare, ok := preparers[step.Op]
	if !ok {
		return now, nil, refusal.New(refusal.UnknownOp, "the local driver does not know %q", step.Op)
	}
	look := step.Look()
	cleanup(d.names.lock(look.Target.Name, look.TrashName()))
	g, now, err := d.look(ctx, look)
	if err != nil {
		return now, nil, err
	}
	if g != nil {
		cleanup(g.close)
		if took, err := d.takeUp(ctx, g); err != nil {
			return now, nil, err
		} else if took {
			d.standing(ctx, g, &now)
		}
	}
	if err := cmp.Or(driver.Fits(step, now), d.suits(step)); err != nil {
		return now, nil, err
	}
	act, err := prepare(d, ctx, step, g)
	if err == nil && stopsFirst[step.Op] {
		err = d.settleFirst(ctx, g)
	}
	if err != nil {
		return now, nil, err
	}
	if g != nil && takesData[step.Op] {
		// If the step needs a signature, the operators see what it would take.
		now.Facts = d.facts(ctx, g)
	}
	return now, func(ctx context.Context) (r driver.Result, err error) {
		err = act(ctx, &r)
		crashpoint.Here(crashpoint.Executed)
		return r, worded(err)
	}, nil
}

// action does a step's work after the permit was used. It may write into the result what it
// did.
type action func(context.Context, *driver.Result) error

// preparers check what a step needs and change nothing, because a look asks them, too. They return the function that does the
// step. The guest is nil for a step that makes one. It has the snapshot that a restore or a snapshot-delete names.
var preparers = map[string]func(*Driver, context.Context, op.Step, *guest) (action, error){
	"guest.create":          (*Driver).prepareCreate,
	"guest.undelete":        (*Driver).prepareUndelete,
	"guest.start":           (*Driver).prepareStart,
	"guest.stop":            (*Driver).prepareStop,
	"guest.restart":         (*Driver).prepareRestart,
	"guest.set-config":      (*Driver).prepareSetConfig,
	"guest.snapshot":        (*Driver).prepareSnapshot,
	"guest.snapshot-delete": (*Driver).prepareSnapshotDelete,
	"guest.restore":         (*Driver).prepareRestore,
	"guest.wipe":            (*Driver).prepareWipe,
	"guest.destroy":         (*Driver).prepareDestroy,
}

// stopsFirst are the steps that wait for processes of an earlier run before they use their permit.
var stopsFirst = map[string]bool{"guest.destroy": true, "guest.wipe": true, "guest.restore": true}

var takesData = map[string]bool{"guest.destroy": true, "guest.wipe": true, "guest.restore": true,
	"guest.snapshot-delete": true}

// worded marks an error that may go away by itself. Every other error means that the step
// failed and left the target as it was, unless the action said Unknown.
func worded(err error) error {
	for _, passing := range []error{unix.ENOSPC, unix.EDQUOT, unix.EMFILE, unix.ENFILE, unix.ENOMEM, unix.EAGAIN,
		context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, passing) && !driver.IsUnknown(err) {
			return driver.Transient(err)
		}
	}
	return err
}

// Defaults of Config.
const (
	DefaultTrashKeep = 24 * time.Hour
	DefaultStopGrace = 10 * time.Second
)

// Config says where guests live and which commands they may run.
type Config struct {
	Root      string        // an absolute path; made 0700 if it does not exist
	TrashKeep time.Duration // how long the trash keeps a guest; 0 means DefaultTrashKeep
	StopGrace time.Duration // from SIGTERM to SIGKILL; 0 means DefaultStopGrace

	// Commands are the only programs that guests can run, by the name in a guest's command.
	Commands map[string]Command

	// GuestUIDs are the uids of guests' commands. Each guest has its own uid, but a command
	// that names a user runs as that user. A daemon that is not root needs the capabilities to
	// change to them.
	GuestUIDs UIDRange

	// SingleUser is the operator's consent that guests and daemon share a uid. Without it, the
	// driver refuses a command that would run under the daemon's own uid. If that uid is
	// root's, it always refuses.
	SingleUser bool

	// CgroupRoot is a cgroup v2 directory in which the daemon may make groups, such as
	// /sys/fs/cgroup/gated. If it is empty or lacks a controller, rlimits set the limits.
	CgroupRoot string

	Now    func() time.Time // required
	Logger *slog.Logger     // nil discards

	// Wanted reports whether a caller asked to bring back a destroyed guest that had the name.
	// Sweep then keeps the guest, also if Wanted fails. If Wanted is nil, Sweep does not ask.
	Wanted func(ctx context.Context, name string, inc op.Incarnation) (bool, error)

	// Exited, if not nil, gets every guest whose process ended. It must not block.
	Exited func(op.Target)

	// BootID replaces the kernel's boot id, for tests.
	BootID string

	strayWait time.Duration // how long the driver waits for processes of lost guests; tests shorten killWait

	// Tests remove one layer to show that another layer is enough. They also give the kernel an
	// older Landlock than it has.
	without  layers
	landlock int // the highest version; 0 is the kernel's
}

// layers are the barriers between a guest's program and everything else.
type layers struct{ uid, landlock, seccomp bool }

func (c *Config) setDefaults() error {
	if c.Now == nil {
		return refusal.New(refusal.Internal, "local: Config.Now is missing")
	}
	if c.TrashKeep <= 0 {
		c.TrashKeep = DefaultTrashKeep
	}
	if c.StopGrace <= 0 {
		c.StopGrace = DefaultStopGrace
	}
	if c.strayWait <= 0 {
		c.strayWait = killWait
	}
	if c.Wanted == nil {
		c.Wanted = func(context.Context, string, op.Incarnation) (bool, error) { return false, nil }
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.BootID == "" {
		id, err := proc.BootID()
		if err != nil {
			return err
		}
		c.BootID = id
	}
	return nil
}
