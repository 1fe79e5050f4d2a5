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
// guest. A guest whose uid or cgroup proves its end has none, because no filter inside of one with a
// tie can have a listener (EBUSY). Programs that confine others need one.
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

// tied installs the guest's filter. It returns its tie as control data, or nothing if the kernel gives none.
func tied(filter []unix.SockFilter) (oob []byte, err error) {
	fd, err := seccomp.InstallTied(filter)
	if errors.Is(err, unix.EBUSY) || errors.Is(err, unix.EINVAL) {
		return nil, seccomp.Install(filter)
	}
	if err != nil {
		return nil, err
	}
	return unix.UnixRights(fd), nil // the exec closes it
}

// begins says to the parent with one NUL that the command is executed next, and sends the tie. So a child that ended and
// did not say this never executed the command.
func begins(oob []byte) error {
	if err := unix.Sendmsg(readyFD, []byte{0}, oob, nil, unix.MSG_NOSIGNAL); err != nil {
		return fmt.Errorf("say that the command begins: %w", err)
	}
	return nil
}

// childWords is what a child said on its ready socket, and the tie that came with it.
type childWords struct {
	*net.UnixConn
	text strings.Builder
	tie  *tie
}

// read reads until the child executes its command or ends. After an error it can go on.
func (c *childWords) read() error {
	b, oob := make([]byte, 4096), make([]byte, unix.CmsgSpace(4))
	for {
		n, oobn, _, _, err := c.ReadMsgUnix(b, oob)
		if oobn > 0 && c.tie == nil {
			c.tie = tieIn(oob[:oobn])
		}
		c.text.Write(b[:max(n, 0)]) // n is -1 if the time is over
		if errors.Is(err, io.EOF) || err == nil && n == 0 {
			return nil
		}
		if err == nil && c.text.Len() > len(b) {
			err = errors.New("the child said too much")
		}
		if err != nil {
			return err
		}
	}
}

// heard says what the child said, and whether that was after it was about to execute its command.
func (c *childWords) heard() (said string, began bool) {
	said, began = strings.CutPrefix(c.text.String(), "\x00")
	return strings.TrimSpace(said), began
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
