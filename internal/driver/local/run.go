package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"runtime"
	"slices"
	"syscall"
	"time"
	"unsafe"

	"github.com/go-json-experiment/json"
	"golang.org/x/sys/unix"

	"gated/internal/base/crashpoint"
	"gated/internal/base/op"
	"gated/internal/base/ownfile"
	"gated/internal/base/refusal"
	"gated/internal/base/seccomp"
	"gated/internal/driver"
)

func (d *Driver) prepareStart(ctx context.Context, step op.Step, g *guest) (action, error) {
	if run, _ := d.lives(ctx, g); run != nil {
		return func(context.Context, *driver.Result) error { return nil }, nil // it runs already
	}
	if err := d.checkRunnable(step.Target, g.spec); err != nil {
		return nil, err
	}
	return func(ctx context.Context, r *driver.Result) error {
		err := d.start(ctx, g)
		if l, lost := d.lost.get(g.incarnation()); lost && l.doubt != "" {
			r.Detail = "of an earlier run " + notProved(l.doubt)
		}
		return err
	}, nil
}

func (d *Driver) prepareStop(_ context.Context, _ op.Step, g *guest) (action, error) {
	return func(ctx context.Context, r *driver.Result) error {
		var err error
		r.Detail, err = d.stop(ctx, g)
		return err
	}, nil
}

func (d *Driver) prepareRestart(_ context.Context, step op.Step, g *guest) (action, error) {
	if err := d.checkRunnable(step.Target, g.spec); err != nil {
		return nil, err
	}
	return func(ctx context.Context, r *driver.Result) error {
		var err error
		if r.Detail, err = d.stop(ctx, g); err != nil {
			return err
		}
		return d.start(ctx, g)
	}, nil
}

// checkRunnable refuses a guest that cannot start.
func (d *Driver) checkRunnable(t op.Target, s spec) error {
	if err := d.mayRun(t, s.Command); err != nil {
		return err
	}
	return d.checkProgram(s.Command)
}

// mayRun refuses what the settings alone forbid: a guest without a command, a command that is not
// configured any more, or one that would run as the daemon's own user. No confinement keeps
// that uid from the gate's state: Landlock does not cover a change of mode or owner.
func (d *Driver) mayRun(t op.Target, command string) error {
	if command == "" {
		return refusal.New(refusal.Conflict, "%s has no command to run", t).
			WithHint("set one: gated submit guest.set-config %s -p command=NAME", t.Name)
	}
	if err := d.checkCommand(command); err != nil {
		return err
	}
	if d.accounts[command].Switch || d.cfg.GuestUIDs.set() || d.cfg.without.uid || d.cfg.SingleUser && os.Geteuid() != 0 {
		return nil
	}
	whose := "the daemon's own user, and could change the gate itself"
	if os.Geteuid() == 0 {
		whose = "root"
	}
	return refusal.New(refusal.NotAllowed, "command %s would run as %s", command, whose).
		WithHint("say local: {guest_uids: FIRST-LAST} in gated.yaml, a range that nothing else uses; or name the command's user")
}

// noneMayRun reports whether the settings forbid every command that a guest can have.
func (d *Driver) noneMayRun(t op.Target) bool {
	return !slices.ContainsFunc(sortedKeys(d.cfg.Commands), func(name string) bool { return d.mayRun(t, name) == nil })
}

// runsAs returns the account of a guest's next process, and gives the guest's data to that
// account.
func (d *Driver) runsAs(ctx context.Context, g *guest) (account, error) {
	a := d.accounts[g.Command]
	if a.Switch || !d.cfg.GuestUIDs.set() || d.cfg.without.uid {
		return a, nil
	}
	uid, err := d.uids.give(d, g.UUID)
	if err != nil {
		return account{}, err
	}
	crashpoint.Here(crashpoint.StartGiven)
	data, err := g.dir.sub(dataDir)
	if err != nil {
		return account{}, err
	}
	defer data.close()
	err = adoptTree(ctx, data, uid)
	crashpoint.Here(crashpoint.StartOwned)
	return account{Switch: true, UID: uid, GID: uid}, err
}

// checkProgram refuses a program that others could have changed since the daemon started. If
// the program is missing, it passes, because the start reports that.
func (d *Driver) checkProgram(name string) error {
	err := ownfile.Own().CheckProgram(d.cfg.Commands[name].Argv[0])
	if errors.Is(err, refusal.NotAllowed) {
		return err
	}
	return nil
}

func (d *Driver) checkCommand(name string) error {
	if _, ok := d.cfg.Commands[name]; name != "" && !ok {
		return refusal.New(refusal.NotAllowed, "local.commands has no entry %q", name).
			WithHint("an operator adds it to gated.yaml")
	}
	return nil
}

func (d *Driver) prepareSetConfig(_ context.Context, step op.Step, g *guest) (action, error) {
	s := g.spec
	s.apply(step.Params)
	return func(context.Context, *driver.Result) error {
		if err := g.asSeen(); err != nil {
			return err
		}
		// The cgroup comes first: if it refuses, the file still has the limits that hold.
		if p := d.procs.get(g.incarnation()); p != nil {
			if err := d.cgroups.limit(p.group, s); err != nil {
				return err
			}
		}
		err := g.write(s)
		crashpoint.Here(crashpoint.ConfigWritten)
		return err
	}, nil
}

const (
	runFileName = "run.json"
	logFile     = "log"
	oldLogExt   = ".1"
)

// maxLog is the size in bytes from which a start moves a guest's log away. While a process runs
// its log has no bound.
const maxLog = 8 << 20

// runFile says which process a guest had last. It is written before the process may do
// anything, so that the driver has a record of every process.
type runFile struct {
	PID       int       `json:"pid"`
	Ticks     uint64    `json:"start_ticks"` // since boot, as proc.ID has them
	BootID    string    `json:"boot_id"`
	StartedAt time.Time `json:"started_at"`
	Command   string    `json:"command"`
	Confined  bool      `json:"confined"` // whether Landlock confined the process
	Memory    string    `json:"memory"`   // what limits it: "cgroup", "rlimits" or "none"
	CPUs      string    `json:"cpus"`     // "cgroup" or "none"
	UID       *uint32   `json:"uid"`      // the process' uid; nil in a file of an older gated

	// Group says that it was put into a cgroup that limits nothing. An older gated refuses a file
	// with this member and ends the guest, so it is there only if the limits do not tell.
	Group bool `json:"group,omitzero"`

	// Unproved says why nothing proves that a run before this one has ended. An older gated refuses a file with it, too.
	Unproved string `json:"unproved,omitzero"`
}

// grouped reports whether the process was put into a cgroup of its guest.
func (r runFile) grouped() bool { return r.Group || r.Memory == byCgroup || r.CPUs == byCgroup }

func (r runFile) write(d *dir) error {
	b, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("%s: %w", runFileName, err)
	}
	return d.replace(runFileName, b)
}

// readRunFile returns nil if there is no run file.
func readRunFile(d *dir) (*runFile, error) {
	b, err := d.read(runFileName)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var r runFile
	if err := json.Unmarshal(b, &r, json.RejectUnknownMembers(true)); err != nil {
		return nil, fmt.Errorf("%s: %w", runFileName, err)
	}
	if r.PID <= 1 || r.Ticks == 0 || r.BootID == "" {
		return nil, fmt.Errorf("%s lacks a member", runFileName)
	}
	return &r, nil
}

// childArg is the hidden first argument that makes this program a guest's process.
const childArg = "__gated_guest"

// The child's descriptors, in the order of launchFiles.fork.
const (
	ordersFD = 3
	dataFD   = 4
	readyFD  = 5
)

// orders is what the parent tells the child. It comes through a pipe, because other processes
// can read a command line.
type orders struct {
	Argv    []string
	Env     []string
	Account account
	Memory  uint64 // RLIMIT_AS in bytes; 0 is none

	Landlock int  // the version of Landlock that confines the child; 0 is none
	Seccomp  bool // whether a seccomp filter confines the child
	Tie      bool // whether the filter gets a tie, because nothing else proves the end
}

// MaybeExecGuest turns this process into a guest's process, or into the killer of a guest's
// processes, if it was started as one. Then it does not return. Every program that links this package and makes a Driver calls it first.
// Tests call it in TestMain.
func MaybeExecGuest() {
	maybeKill()
	if len(os.Args) != 2 || os.Args[1] != childArg {
		return
	}
	// Capabilities and the securing of an exec belong to a thread.
	runtime.LockOSThread()
	err := execGuest()
	fmt.Fprintln(os.NewFile(readyFD, "ready"), err)
	os.Exit(127)
}

func execGuest() error {
	// The exec also closes each descriptor that the daemon failed to mark.
	if err := unix.CloseRange(3, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return fmt.Errorf("close_range: %w", err)
	}
	b, err := io.ReadAll(os.NewFile(ordersFD, "orders"))
	if err != nil {
		return err
	}
	var o orders
	if err := json.Unmarshal(b, &o, json.RejectUnknownMembers(true)); err != nil {
		// The daemon died before it gave orders, so no guest's program ran.
		return fmt.Errorf("no orders: %w", err)
	}
	if err := unix.Fchdir(dataFD); err != nil {
		return fmt.Errorf("enter data: %w", err)
	}
	unix.Umask(0o022)
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no_new_privs: %w", err)
	}
	if err := confine(o.Argv[0], o.Landlock); err != nil {
		return err
	}
	if err := dropPrivileges(o.Account); err != nil {
		return err
	}
	var tie []byte
	if filter := seccomp.Guest(o.Landlock); o.Tie {
		tie, err = tied(filter)
	} else if o.Seccomp {
		err = seccomp.Install(filter)
	}
	if err == nil {
		err = begins(tie)
	}
	if err != nil {
		return err
	}
	return execWithin(o)
}

// usualOpenFiles is the soft limit that Linux starts the first process with.
const usualOpenFiles = 1024

// execWithin executes the command under its memory limit. This program may need more address
// space than a small guest has. So it allocates nothing between the two system calls.
func execWithin(o orders) error {
	path, err := syscall.BytePtrFromString(o.Argv[0])
	if err != nil {
		return err
	}
	argv, err := syscall.SlicePtrFromStrings(o.Argv)
	if err != nil {
		return err
	}
	env, err := syscall.SlicePtrFromStrings(o.Env)
	if err != nil {
		return err
	}
	// The Go runtime raised the soft limit for itself. Programs that use select(2) rely on the
	// usual limit, and other programs can raise it.
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
		return fmt.Errorf("read the limit of open files: %w", err)
	}
	files.Cur = min(files.Max, usualOpenFiles)
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
		return fmt.Errorf("limit open files: %w", err)
	}
	if o.Memory > 0 {
		limit := unix.Rlimit{Cur: o.Memory, Max: o.Memory}
		_, _, errno := unix.RawSyscall6(unix.SYS_PRLIMIT64, 0, unix.RLIMIT_AS, uintptr(unsafe.Pointer(&limit)), 0, 0, 0)
		if errno != 0 {
			return fmt.Errorf("limit memory: %w", errno)
		}
	}
	_, _, errno := unix.RawSyscall(unix.SYS_EXECVE, uintptr(unsafe.Pointer(path)), uintptr(unsafe.Pointer(&argv[0])),
		uintptr(unsafe.Pointer(&env[0])))
	return fmt.Errorf("exec %s: %w", o.Argv[0], errno)
}
