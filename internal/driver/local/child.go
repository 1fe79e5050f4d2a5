package local

import (
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"gated/internal/base/seccomp"

	"github.com/go-json-experiment/json"
	"golang.org/x/sys/unix"
)

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
}

// MaybeExecGuest turns this process into a guest's process if it was started as one. Then it
// does not return. Every program that links this package and makes a Driver calls it first.
// Tests call it in TestMain.
func MaybeExecGuest() {
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
	if o.Seccomp {
		if err := seccomp.Install(seccomp.Guest(o.Landlock)); err != nil {
			return err
		}
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
