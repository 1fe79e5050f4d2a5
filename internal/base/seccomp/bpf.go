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
	if len(filter) == 0 {
		return errors.New("seccomp: there is no filter for this architecture")
	}
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	_, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&prog)))
	if errno != 0 {
		return fmt.Errorf("seccomp: %w", errno)
	}
	return nil
}

// Supported reports whether the kernel and this package can filter on this architecture.
func Supported() bool {
	action := uint32(unix.SECCOMP_RET_ERRNO)
	_, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_GET_ACTION_AVAIL, 0, uintptr(unsafe.Pointer(&action)))
	return errno == 0 && auditArch != 0
}
