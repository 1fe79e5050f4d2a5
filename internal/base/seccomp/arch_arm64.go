package seccomp

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_AARCH64

// otherABI is empty, because 32-bit programs have an architecture of their own.
func otherABI() []unix.SockFilter { return nil }

// opens are the calls that open a file. The value is the index of the argument with the flags.
var opens = map[uint32]int{unix.SYS_OPENAT: 2}

// archForbidden are forbidden calls that only some architectures have.
var archForbidden = []uint32{unix.SYS_KEXEC_FILE_LOAD}
