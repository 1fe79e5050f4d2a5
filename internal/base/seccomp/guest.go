// Package seccomp makes filters of system calls in classic BPF. It has the instructions, and
// the filter for a guest's program.
//
// See seccomp(2) and Documentation/userspace-api/seccomp_filter.rst of the kernel.
package seccomp

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// From these versions on, Landlock itself covers these parts of the filter.
const (
	LandlockTruncates = 3 // LANDLOCK_ACCESS_FS_TRUNCATE
	LandlockConnects  = 9 // LANDLOCK_ACCESS_FS_RESOLVE_UNIX
)

// namespaces are the flags of clone(2) that make namespaces, except the flag that shares its
// bit with the exit signal.
const namespaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWUSER |
	unix.CLONE_NEWPID | unix.CLONE_NEWNET

// ioctls of terminals that write into another program's input.
const (
	tiocsti   = 0x5412
	tioclinux = 0x541c
)

// Guest returns the filter for a guest's program. landlock is the version of the kernel's
// Landlock. The filter is the second layer behind the guest's own uid. It guards what is no
// file: other processes, rarely used parts of the kernel, and kinds of sockets. If programs can
// do without a call, it does not exist (ENOSYS), so that they fall back. Any other call is not
// permitted (EPERM).
func Guest(landlock int) []unix.SockFilter {
	if auditArch == 0 {
		return nil
	}
	var rules []rule
	for _, nr := range forbidden {
		rules = append(rules, rule{nr: nr, errno: unix.EPERM})
	}
	for _, nr := range absent {
		rules = append(rules, rule{nr: nr, errno: unix.ENOSYS})
	}
	rules = append(rules,
		// The limits of another process. A program asks for its own with 0.
		rule{unix.SYS_PRLIMIT64, unix.EPERM, []condition{isNot(0, 0)}},
		// Every process of the uid, if Landlock has no scope for signals.
		rule{unix.SYS_KILL, unix.EPERM, []condition{is(0, allBits)}},
		rule{unix.SYS_IOCTL, unix.EPERM, []condition{is(1, tiocsti)}},
		rule{unix.SYS_IOCTL, unix.EPERM, []condition{is(1, tioclinux)}},
	)
	for bit := uint32(1); bit != 0; bit <<= 1 {
		if namespaces&bit != 0 {
			rules = append(rules, rule{unix.SYS_CLONE, unix.EPERM, []condition{{0, bit, bit, false}}},
				rule{unix.SYS_UNSHARE, unix.EPERM, []condition{{0, bit, bit, false}}})
		}
	}
	rules = append(rules, rule{unix.SYS_UNSHARE, unix.EPERM, []condition{{0, unix.CLONE_NEWTIME, unix.CLONE_NEWTIME, false}}})
	rules = append(rules, sockets(landlock)...)
	if landlock < LandlockTruncates {
		rules = append(rules, truncations()...)
	}
	return program(rules)
}

// sockets allows the network and a look at its interfaces. If Landlock does not cover
// connections to named sockets, only pairs of UNIX sockets are allowed, because a filter sees
// no path.
func sockets(landlock int) []rule {
	others := []condition{isNot(0, unix.AF_INET), isNot(0, unix.AF_INET6), isNot(0, unix.AF_NETLINK)}
	if landlock >= LandlockConnects {
		others = append(others, isNot(0, unix.AF_UNIX))
	}
	return []rule{
		{unix.SYS_SOCKET, unix.EAFNOSUPPORT, others},
		{unix.SYS_SOCKET, unix.EAFNOSUPPORT, []condition{is(0, unix.AF_NETLINK), isNot(2, unix.NETLINK_ROUTE)}},
	}
}

// truncations are the ways to empty a file that Landlock does not see. It only asks for the
// right to write if the file is opened for writing. openat2 has its flags in memory, where a
// filter cannot see them, so programs must fall back to openat.
func truncations() []rule {
	const bits = unix.O_ACCMODE | unix.O_TRUNC
	out := []rule{{unix.SYS_TRUNCATE, unix.EPERM, nil}, {unix.SYS_OPENAT2, unix.ENOSYS, nil}}
	for _, access := range []uint32{unix.O_RDONLY, unix.O_ACCMODE} {
		for nr, arg := range opens {
			out = append(out, rule{nr, unix.EPERM, []condition{{arg, bits, access | unix.O_TRUNC, false}}})
		}
	}
	return out
}

// forbidden are calls that act on other processes, keys, mounts and the machine.
var forbidden = append([]uint32{
	unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_PROCESS_MADVISE, unix.SYS_PROCESS_MRELEASE,
	unix.SYS_PIDFD_GETFD, unix.SYS_KCMP, unix.SYS_MIGRATE_PAGES, unix.SYS_MOVE_PAGES, unix.SYS_PERF_EVENT_OPEN,
	unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_KEYCTL,
	unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT, unix.SYS_OPEN_TREE, unix.SYS_MOVE_MOUNT, unix.SYS_FSOPEN,
	unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK, unix.SYS_MOUNT_SETATTR, unix.SYS_SETNS,
	unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_FANOTIFY_INIT, unix.SYS_QUOTACTL, unix.SYS_QUOTACTL_FD, unix.SYS_ACCT, unix.SYS_SWAPON, unix.SYS_SWAPOFF,
	unix.SYS_BPF, unix.SYS_USERFAULTFD,
	unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE, unix.SYS_KEXEC_LOAD,
	unix.SYS_REBOOT, unix.SYS_SYSLOG, unix.SYS_VHANGUP, unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME,
	unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME, unix.SYS_CLOCK_ADJTIME, unix.SYS_ADJTIMEX,
}, archForbidden...)

// absent are calls whose arguments a filter cannot see. clone3 has its flags in memory.
// io_uring makes other calls that no filter sees.
var absent = []uint32{unix.SYS_CLONE3, unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER}

// Offsets in struct seccomp_data.
const (
	Number = 0
	arch   = 4
)

// Arg returns the offset of the low half of an argument. An int only has that half.
func Arg(i int) uint32 { return 16 + 8*uint32(i) }

// Load is the instruction that loads 32 bits from an offset.
func Load(at uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at}
}

// Equal is the instruction that skips as many instructions as yes or no say.
func Equal(k uint32, yes, no uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: k, Jt: yes, Jf: no}
}

// Return is the instruction that ends the filter with an action.
func Return(action uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: action}
}

func mask(k uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: k}
}

// fail is the action that makes a call fail with errno.
func fail(errno unix.Errno) uint32 { return unix.SECCOMP_RET_ERRNO | uint32(errno) }

// rule makes a call fail with errno under some conditions.
type rule struct {
	nr    uint32
	errno unix.Errno
	when  []condition // all must hold; an empty list always holds
}

// condition compares some bits of the low half of an argument.
type condition struct {
	arg   int
	mask  uint32
	value uint32
	not   bool // the bits must not equal the value
}

const allBits = 1<<32 - 1

func is(arg int, value uint32) condition    { return condition{arg, allBits, value, false} }
func isNot(arg int, value uint32) condition { return condition{arg, allBits, value, true} }

// instructions are the instructions of the rule. After them, the number of the call is no
// longer loaded.
func (r rule) instructions() []unix.SockFilter {
	var out []unix.SockFilter
	left := uint8(len(r.when)*3 + 1) // instructions from each step to the end
	out = append(out, Load(Number), Equal(r.nr, 0, left))
	for _, c := range r.when {
		left -= 3
		out = append(out, Load(Arg(c.arg)), mask(c.mask))
		if c.not {
			out = append(out, Equal(c.value, left, 0))
		} else {
			out = append(out, Equal(c.value, 0, left))
		}
	}
	return append(out, Return(fail(r.errno)))
}

// program makes a filter from rules. A call that no rule names is allowed. A call of another
// architecture fails with ENOSYS, because its numbers mean other calls.
func program(rules []rule) []unix.SockFilter {
	out := []unix.SockFilter{Load(arch), Equal(auditArch, 1, 0), Return(fail(unix.ENOSYS))}
	out = append(out, otherABI()...)
	for _, r := range rules {
		out = append(out, r.instructions()...)
	}
	return append(out, Return(unix.SECCOMP_RET_ALLOW))
}

// Install sets a filter for this thread and the program that it executes. The thread must have
// no_new_privs set and be locked.
func Install(filter []unix.SockFilter) error {
	_, err := install(filter, 0)
	return err
}

// InstallTied is Install. The descriptor that it returns is hung up (POLLHUP) when no process has
// the filter any more. All descendants of this thread inherit the filter and cannot lose it, so
// the kernel then says that they are gone. Linux has this since 5.9, and before 6.11 a process
// counts until its parent has collected it. The error is EBUSY if a filter around this process
// has such a descriptor already.
func InstallTied(filter []unix.SockFilter) (fd int, err error) {
	return install(filter, unix.SECCOMP_FILTER_FLAG_NEW_LISTENER)
}

func install(filter []unix.SockFilter, flags uintptr) (int, error) {
	if len(filter) == 0 {
		return -1, errors.New("seccomp: there is no filter for this architecture")
	}
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	r, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&prog)))
	if errno != 0 {
		return -1, fmt.Errorf("seccomp: %w", errno)
	}
	return int(r), nil
}

// Supported reports whether the kernel and this package can filter on this architecture.
func Supported() bool {
	action := uint32(unix.SECCOMP_RET_ERRNO)
	_, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_GET_ACTION_AVAIL, 0, uintptr(unsafe.Pointer(&action)))
	return errno == 0 && auditArch != 0
}
