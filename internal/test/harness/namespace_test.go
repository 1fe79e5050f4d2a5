package harness_test

import (
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// loopbackAlone starts a process in a network namespace of its own. A user without privileges gets a user namespace with
// it, in which the user's ids stay the same.
func loopbackAlone() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if uid := os.Geteuid(); uid != 0 {
		attr.Cloneflags |= syscall.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getegid(), HostID: os.Getegid(), Size: 1}}
		attr.AmbientCaps = []uintptr{unix.CAP_NET_ADMIN}
	}
	return attr
}

// raiseLoopback starts the loopback interface, which is down in a new namespace. It ends the test if there is another
// interface: a product could reach a real model.
func raiseLoopback(t *testing.T) {
	all, err := net.Interfaces()
	require.NoError(t, err)
	for _, i := range all {
		require.False(t, i.Flags&net.FlagUp != 0 && i.Flags&net.FlagLoopback == 0, i.Name)
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	defer func() { require.NoError(t, unix.Close(fd)) }()
	lo, err := unix.NewIfreq("lo")
	require.NoError(t, err)
	lo.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	require.NoError(t, unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo))
	_, err = net.Dial("udp", "192.0.2.1:53")
	require.ErrorIs(t, err, syscall.ENETUNREACH, "the namespace has a way out")
}
