package local

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"gated/internal/base/seccomp"
)

// tie is a descriptor of the filter of system calls that a guest's processes have. All of them
// inherit the filter and cannot lose it. The kernel hangs the descriptor up when the last of them
// is gone. So it proves that, whatever uid they have. It ends with the daemon that started the
// guest.
type tie struct{ f *os.File }

// cut waits until no process has the filter, at most for a time. It reports if the kernel said
// so.
func (t *tie) cut(most time.Duration) (bool, error) {
	p := []unix.PollFd{{Fd: int32(t.f.Fd())}}
	_, err := unix.Poll(p, int(most.Milliseconds()))
	if err != nil && !errors.Is(err, unix.EINTR) {
		return false, fmt.Errorf("wait for the end of the guest's processes: %w", err)
	}
	return p[0].Revents&unix.POLLHUP != 0, nil
}

func (t *tie) close() {
	if t != nil {
		_ = t.f.Close() // it has no buffered data
	}
}

// tied installs the guest's filter. If the kernel gives a tie, tied sends it to the parent, with
// one NUL. Before that the guest's program does not run.
func tied(filter []unix.SockFilter) error {
	fd, err := seccomp.InstallTied(filter)
	if errors.Is(err, unix.EBUSY) || errors.Is(err, unix.EINVAL) {
		return seccomp.Install(filter)
	}
	if err != nil {
		return err
	}
	if err := unix.Sendmsg(readyFD, []byte{0}, unix.UnixRights(fd), nil, unix.MSG_NOSIGNAL); err != nil {
		return fmt.Errorf("send the filter's descriptor: %w", err)
	}
	return nil // the exec closes it
}

// readReady reads what a child says until it executes its command, and its tie.
func readReady(ready *net.UnixConn) (said string, t *tie, err error) {
	var text strings.Builder
	b, oob := make([]byte, 4096), make([]byte, unix.CmsgSpace(4))
	for {
		n, oobn, _, _, err := ready.ReadMsgUnix(b, oob)
		if oobn > 0 && t == nil {
			t = tieIn(oob[:oobn])
		}
		text.Write(b[:n])
		if errors.Is(err, io.EOF) || err == nil && n == 0 {
			return strings.TrimSpace(strings.TrimPrefix(text.String(), "\x00")), t, nil
		}
		if err != nil || text.Len() > len(b) {
			t.close()
			return "", nil, errors.Join(err, errors.New("the child said too much"))
		}
	}
}

// tieIn takes the one descriptor out of a control message.
func tieIn(oob []byte) *tie {
	all, err := unix.ParseSocketControlMessage(oob)
	if err != nil || len(all) != 1 {
		return nil
	}
	fds, err := unix.ParseUnixRights(&all[0])
	if err != nil || len(fds) != 1 {
		return nil
	}
	return &tie{os.NewFile(uintptr(fds[0]), "a guest's filter")}
}

// readyPair makes the two ends on which a child says why it does not execute its command.
func readyPair() (parent *net.UnixConn, child *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	mine := os.NewFile(uintptr(fds[0]), "ready")
	defer mine.Close() // FileConn has a copy of its own
	child = os.NewFile(uintptr(fds[1]), "ready")
	conn, err := net.FileConn(mine)
	if err != nil {
		_ = child.Close()
		return nil, nil, err
	}
	return conn.(*net.UnixConn), child, nil
}
