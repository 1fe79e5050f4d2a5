package seccomp

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_X86_64

// x32 is the bit in the numbers of the x32 ABI. These numbers mean other calls.
const x32 = 0x40000000

// otherABI refuses calls that have the same architecture but other numbers.
func otherABI() []unix.SockFilter {
	return []unix.SockFilter{
		Load(Number),
		{Code: unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K, K: x32, Jt: 0, Jf: 1},
		Return(fail(unix.ENOSYS)),
	}
}

// opens are the calls that open a file. The value is the index of the argument with the flags.
var opens = map[uint32]int{unix.SYS_OPEN: 1, unix.SYS_OPENAT: 2}

// archForbidden are forbidden calls that only some architectures have.
var archForbidden = []uint32{unix.SYS_KEXEC_FILE_LOAD, unix.SYS_IOPL, unix.SYS_IOPERM, unix.SYS_MODIFY_LDT, unix.SYS_USELIB, unix.SYS__SYSCTL, unix.SYS_USTAT, unix.SYS_SYSFS}
