package server

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"gated/internal/base/op"
	"gated/internal/base/ownfile"
	"gated/internal/base/refusal"
)

// maxSocketMode is the widest mode of a socket that is adopted.
const maxSocketMode = 0o660

// Adopt returns the socket that a service manager made and passed in fds, which it closes. It refuses, as NotAllowed
// or BadParams, anything but one stream socket of this host that listens at told, or anywhere if told is empty. Others
// must not be able to write to the socket or to replace it: its mode is 0660 or less, root or this process owns it, and
// no other user may write to its directory. Conflict: another process has adopted it and did not end.
//
// Close leaves an adopted socket at its path: callers wait in its queue until the next daemon adopts it.
func Adopt(fds []*os.File, told string) (s *Socket, err error) {
	defer func() {
		for _, f := range fds {
			err = errors.Join(err, f.Close()) // the listener is a duplicate
		}
		if err == nil {
			err = s.claim()
		}
		if err != nil && s != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if len(fds) != 1 {
		names := make([]string, len(fds))
		for i, f := range fds {
			names[i] = op.Shown(f.Name())
		}
		return nil, refusal.New(refusal.BadParams, "the service manager passes %d descriptors (%s), and gated takes one",
			len(fds), strings.Join(names, ", ")).
			WithHint("leave one ListenStream= in the socket unit, and one socket unit for the service: systemctl cat gated.socket")
	}
	path, err := listensAt(fds[0])
	if err != nil {
		return nil, err
	}
	if told != "" && filepath.Clean(told) != path {
		return nil, refusal.New(refusal.BadParams, "the socket unit listens at %s, but gated was told %s", op.Shown(path), op.Shown(told)).
			WithHint("let ListenStream= of the socket unit and --socket of the service (or socket in gated.yaml) name the same path")
	}
	info, err := checkAdopted(path)
	if err != nil {
		return nil, err
	}
	l, err := net.FileListener(fds[0])
	if err != nil {
		return nil, fmt.Errorf("listen on the socket unit's socket: %w", err)
	}
	stream, ok := l.(*net.UnixListener)
	if !ok {
		return nil, errors.Join(wrongKind(fds[0], "it is not a unix stream socket"), l.Close())
	}
	stream.SetUnlinkOnClose(false)
	return &Socket{UnixListener: stream, path: path, made: info, adopted: true}, nil
}

// claim makes this process the only one that serves an adopted socket. With two of them, each call would come to one or
// the other gate by chance. The lock is of the process (fcntl(2), F_SETLK): it goes with the process, and with the first
// descriptor of the socket that the process closes. So it comes after all that closes one.
func (s *Socket) claim() error {
	raw, err := s.SyscallConn()
	if err != nil {
		return fmt.Errorf("lock the socket unit's socket: %w", err)
	}
	busy, other := false, unix.Flock_t{Type: unix.F_WRLCK}
	controlled := raw.Control(func(fd uintptr) {
		err = unix.FcntlFlock(fd, unix.F_SETLK, &unix.Flock_t{Type: unix.F_WRLCK})
		if busy = errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES); busy {
			err = unix.FcntlFlock(fd, unix.F_GETLK, &other)
		}
	})
	switch {
	case controlled != nil || err != nil:
		return fmt.Errorf("lock the socket unit's socket: %w", errors.Join(controlled, err))
	case busy:
		return refusal.New(refusal.Conflict, "process %d serves %s already", other.Pid, op.Shown(s.path)).
			WithHint("systemctl status %d names its unit; one service alone may have the socket unit in Sockets=, "+
				"and another gate needs a socket of its own", other.Pid)
	}
	return nil
}

// listensAt returns the path of a descriptor that is a listening unix stream socket.
func listensAt(f *os.File) (string, error) {
	fd := int(f.Fd())
	for _, want := range []struct {
		option, value int
		why           string
	}{
		{unix.SO_DOMAIN, unix.AF_UNIX, "it is not a unix socket"},
		{unix.SO_TYPE, unix.SOCK_STREAM, "it is not a stream socket"},
		{unix.SO_ACCEPTCONN, 1, "it does not listen"},
	} {
		got, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, want.option)
		if errors.Is(err, unix.ENOTSOCK) || err == nil && got != want.value {
			return "", wrongKind(f, want.why)
		}
		if err != nil {
			return "", fmt.Errorf("look at the socket unit's socket: %w", err)
		}
	}
	name, err := unix.Getsockname(fd)
	if err != nil {
		return "", fmt.Errorf("look at the socket unit's socket: %w", err)
	}
	at, ok := name.(*unix.SockaddrUnix)
	if !ok || !filepath.IsAbs(at.Name) {
		return "", wrongKind(f, "it has no absolute path")
	}
	return filepath.Clean(at.Name), nil
}

func wrongKind(f *os.File, why string) error {
	return refusal.New(refusal.BadParams, "the service manager passes %s, which gated cannot serve: %s", op.Shown(f.Name()), why).
		WithHint("give the socket unit ListenStream=/run/gated/gated.sock, and Accept=no")
}

// checkAdopted refuses a path that another user can write to, or put another socket at.
func checkAdopted(path string) (fs.FileInfo, error) {
	if err := ownfile.Own().Check(filepath.Dir(path)); err != nil {
		return nil, err
	}
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, refusal.New(refusal.Conflict, "the socket unit's socket is not at %s any more", op.Shown(path)).
			WithHint("systemctl restart gated.socket")
	case err != nil:
		return nil, fmt.Errorf("look at the socket unit's socket: %w", err)
	case info.Mode().Type() != fs.ModeSocket:
		return nil, refusal.New(refusal.Conflict, "%s is not a socket any more", op.Shown(path)).
			WithHint("find out who replaced it, then: systemctl restart gated.socket")
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || st.Uid != 0 && st.Uid != uint32(os.Geteuid()) {
		return nil, refusal.New(refusal.NotAllowed, "%s belongs to %s, who is neither root nor uid %d", op.Shown(path),
			ownfile.Owner(st.Uid), os.Geteuid()).
			WithHint("take SocketUser= out of the socket unit, then: systemctl restart gated.socket")
	}
	if perm := info.Mode().Perm(); perm&^maxSocketMode != 0 {
		return nil, refusal.New(refusal.NotAllowed, "%s has mode %04o, and gated takes %04o at most", op.Shown(path), perm, maxSocketMode).
			WithHint("set SocketMode=0660 and SocketGroup= in the socket unit, then: systemctl restart gated.socket")
	}
	return info, nil
}
