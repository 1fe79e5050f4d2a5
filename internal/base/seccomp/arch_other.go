//go:build !amd64 && !arm64

package seccomp

import "golang.org/x/sys/unix"

// auditArch 0 means that there is no filter for this architecture.
const auditArch = 0

func otherABI() []unix.SockFilter { return nil }

var opens map[uint32]int

var archForbidden []uint32
