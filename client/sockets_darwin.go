package client

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// peer returns the process that listens at the other end of a socket, and its uid. No gate runs
// on macOS, but a socket may be forwarded to it.
func peer(fd int) (pid int, uid uint32, err error) {
	cred, err := unix.GetsockoptXucred(fd, unix.SOL_LOCAL, unix.LOCAL_PEERCRED)
	if err != nil {
		return 0, 0, err
	}
	pid, err = unix.GetsockoptInt(fd, unix.SOL_LOCAL, unix.LOCAL_PEERPID)
	return pid, cred.Uid, err
}

// pair returns two connected sockets that no other child process gets: none is started between
// the two calls.
func pair() ([2]int, error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err == nil {
		unix.CloseOnExec(fds[0])
		unix.CloseOnExec(fds[1])
	}
	return fds, err
}
