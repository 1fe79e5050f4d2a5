package agent

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// someGroups is how many supplementary groups fit at the first try.
const someGroups = 32

// Groups returns the peer's groups at the time when it connected, its effective group first (SO_PEERCRED and
// SO_PEERGROUPS, unix(7)). The kernel keeps them with the connection, so the time of the call does not matter. After
// the connection is closed it is an error. A kernel before 4.13 tells the effective group alone.
func (p *Peer) Groups() ([]uint32, error) {
	groups := []uint32{p.GID}
	if p.socket == nil {
		return groups, nil
	}
	var more []uint32
	var inner error
	if err := p.socket.Control(func(fd uintptr) { more, inner = peerGroups(fd) }); err != nil {
		return nil, err
	}
	return append(groups, more...), inner
}

func peerGroups(socket uintptr) ([]uint32, error) {
	more, err := askGroups(socket, someGroups)
	if errors.Is(err, unix.ERANGE) {
		more, err = askGroups(socket, len(more))
	}
	if errors.Is(err, unix.ENOPROTOOPT) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("SO_PEERGROUPS: %w", err)
	}
	return more, nil
}

// askGroups has room for n groups. If there are more, it fails with ERANGE and returns their number, without the
// groups.
func askGroups(socket uintptr, n int) ([]uint32, error) {
	groups := make([]uint32, n)
	size := uint32(n) * uint32(unsafe.Sizeof(groups[0]))
	_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, socket, unix.SOL_SOCKET, unix.SO_PEERGROUPS,
		uintptr(unsafe.Pointer(&groups[0])), uintptr(unsafe.Pointer(&size)), 0)
	n = int(size / uint32(unsafe.Sizeof(groups[0])))
	switch errno {
	case 0:
		return groups[:n], nil
	case unix.ERANGE:
		return make([]uint32, n), errno
	}
	return nil, errno
}
