package seccomp

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_AARCH64

// otherABI is none: 32-bit programs have an architecture of their own.
func otherABI() []unix.SockFilter { return nil }

// opens are the calls that open a file, with the argument that has the flags.
var opens = map[uint32]int{unix.SYS_OPENAT: 2}

// archForbidden are calls that not every architecture has.
var archForbidden = []uint32{unix.SYS_KEXEC_FILE_LOAD}
