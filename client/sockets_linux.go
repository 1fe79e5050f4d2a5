package client

import "golang.org/x/sys/unix"

// peer returns the process that listens at the other end of a socket, and its uid (unix(7)).
func peer(fd int) (pid int, uid uint32, err error) {
	cred, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return 0, 0, err
	}
	return int(cred.Pid), cred.Uid, nil
}

// pair returns two connected sockets that no other child process gets.
func pair() ([2]int, error) {
	return unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
}
