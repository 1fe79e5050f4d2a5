package server

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"gated/internal/op"
)

// MaxSocketPath is the longest socket path in bytes: sun_path has 108 with the
// final NUL (unix(7)).
const MaxSocketPath = 107

// probeTimeout is how long a socket that exists may take to accept.
const probeTimeout = 2 * time.Second

// Socket is a listening socket and the path that it was put at.
type Socket struct {
	*net.UnixListener
	path string
	made fs.FileInfo
}

// Listen makes a unix socket at path: mode 0600, or 0660 with that group if gid
// is not negative. It refuses, as Conflict, a path where a live daemon answers
// or where there is anything but a socket; a socket that nobody listens on is
// taken away. A missing directory is made, one level.
//
// The socket is bound inside a private directory and moved to path when its
// owner and mode are final, so that no moment exists in which somebody else may
// connect, whatever the umask.
func Listen(path string, gid int) (*Socket, error) {
	if !filepath.IsAbs(path) {
		return nil, op.Refuse(op.Malformed, "the socket path %q is not absolute", path)
	}
	if len(path) > MaxSocketPath {
		return nil, op.Refuse(op.Malformed, "the socket path has %d bytes, a unix socket can have %d: %s", len(path),
			MaxSocketPath, path).WithHint("choose a shorter path with --socket")
	}
	dir := filepath.Dir(path)
	if err := makeDir(dir); err != nil {
		return nil, err
	}
	unlock, err := lockPath(path + ".lock")
	if err != nil {
		return nil, err
	}
	defer unlock()
	private, err := os.MkdirTemp(dir, ".gated-")
	if err != nil {
		return nil, fmt.Errorf("make the socket: %w", err)
	}
	defer func() { _ = os.RemoveAll(private) }()
	if err := clearDead(path, private); err != nil {
		return nil, err
	}
	l, err := bind(private, gid)
	if err != nil {
		return nil, err
	}
	s, err := publish(l, filepath.Join(private, "s"), path)
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return s, nil
}

// lockPath keeps others that start at the same path waiting. Without it, one may
// move away as dead what another has just put there, and a third one be quicker
// than its coming back. The file stays: who removed it would let two in.
func lockPath(path string) (unlock func(), err error) {
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CREAT|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err == nil {
		for err = unix.EINTR; errors.Is(err, unix.EINTR); {
			err = unix.Flock(fd, unix.LOCK_EX)
		}
		if err == nil {
			return func() { _ = unix.Close(fd) }, nil
		}
		_ = unix.Close(fd)
	}
	if barred(err) {
		return nil, noPlace("the socket's lock cannot be made", &fs.PathError{Op: "open", Path: path, Err: err})
	}
	return nil, op.Refuse(op.Conflict, "the socket's lock %s cannot be taken: %v", path, err).
		WithHint("it belongs to who runs the daemon; choose another path with --socket")
}

// makeDir makes the socket's directory. Others may pass through it: who may
// connect is the socket's own mode.
func makeDir(dir string) error {
	err := os.Mkdir(dir, 0o700)
	switch {
	case errors.Is(err, fs.ErrExist):
		return nil
	case barred(err):
		return noPlace("the socket's directory cannot be made", err)
	case err != nil:
		return fmt.Errorf("make the socket's directory: %w", err)
	}
	return os.Chmod(dir, 0o755)
}

// CheckPlace says beforehand whether Listen may write where it would put a socket,
// and refuses as Listen does. It makes nothing.
func CheckPlace(path string) error {
	const write = unix.W_OK | unix.X_OK
	dir := filepath.Dir(path)
	err := unix.Faccessat(unix.AT_FDCWD, dir, write, unix.AT_EACCESS)
	if errors.Is(err, fs.ErrNotExist) {
		dir = filepath.Dir(dir) // Listen makes one level
		err = unix.Faccessat(unix.AT_FDCWD, dir, write, unix.AT_EACCESS)
	}
	if err != nil {
		return noPlace("the socket cannot be put at "+path, &fs.PathError{Op: "write to", Path: dir, Err: err})
	}
	return nil
}

// barred reports whether the caller chose a place that is not the caller's to
// write to, or that is not there.
func barred(err error) bool {
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.EROFS) || errors.Is(err, fs.ErrNotExist)
}

// noPlace refuses a place for the socket, and names one that every user has.
func noPlace(what string, err error) error {
	return op.Refuse(op.NotAllowed, "%s: %v", what, err).
		WithHint("choose a place of your own, for the daemon and in every shell that asks it: export GATED_SOCKET=$HOME/.gated.sock (or --socket)")
}

// clearDead takes a dead socket at path away. It is first moved aside and asked
// once more there, since another daemon may have put its own in the meantime.
func clearDead(path, private string) error {
	if err := checkDead(path); err != nil || !exists(path) {
		return err
	}
	aside := filepath.Join(private, "old")
	if err := os.Rename(path, aside); err != nil {
		return fmt.Errorf("take away the dead socket: %w", err)
	}
	if err := checkDead(aside); err != nil {
		return errors.Join(taken(path), os.Link(aside, path))
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// checkDead returns nil for a path that is free or that is a socket on which
// nobody listens.
func checkDead(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("look at the socket path: %w", err)
	case info.Mode().Type() != fs.ModeSocket:
		return op.Refuse(op.Conflict, "%s exists and is not a socket", path).
			WithHint("move it away, or choose another path with --socket")
	}
	conn, err := net.DialTimeout("unix", path, probeTimeout)
	switch {
	case err == nil:
		_ = conn.Close()
		return taken(path)
	case errors.Is(err, syscall.ECONNREFUSED):
		return nil
	case errors.Is(err, syscall.EAGAIN), os.IsTimeout(err):
		return taken(path) // its queue is full: somebody listens
	default:
		return op.Refuse(op.Conflict, "%s exists and cannot be asked: %v", path, err).
			WithHint("stop whoever listens there, or choose another path with --socket")
	}
}

func taken(path string) error {
	return op.Refuse(op.Conflict, "another daemon listens on %s", path).
		WithHint("stop it, or choose another path with --socket")
}

// bind makes the socket s in dir. The path goes through a descriptor, for that
// of dir may be longer than a socket's can be.
func bind(dir string, gid int) (*net.UnixListener, error) {
	d, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("make the socket: %w", err)
	}
	defer func() { _ = unix.Close(d) }()
	short := fmt.Sprintf("/proc/self/fd/%d/s", d)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: short, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("make the socket: %w", err)
	}
	// Close would remove a path that by then means something else.
	l.SetUnlinkOnClose(false)
	mode := fs.FileMode(0o600)
	if gid >= 0 {
		mode = 0o660
		if err := os.Lchown(short, -1, gid); err != nil {
			return nil, errors.Join(op.Refuse(op.Conflict, "the socket cannot be given to group %d: %v", gid, err).
				WithHint("let the daemon run as a member of socket_group"), l.Close())
		}
	}
	if err := os.Chmod(short, mode); err != nil {
		return nil, errors.Join(fmt.Errorf("make the socket: %w", err), l.Close())
	}
	return l, nil
}

// publish puts the finished socket at its path. A link, unlike a rename, never
// takes the place of another daemon's.
func publish(l *net.UnixListener, from, path string) (*Socket, error) {
	info, err := os.Lstat(from)
	if err != nil {
		return nil, fmt.Errorf("make the socket: %w", err)
	}
	err = os.Link(from, path)
	switch {
	case errors.Is(err, fs.ErrExist):
		return nil, taken(path)
	case err != nil:
		return nil, fmt.Errorf("make the socket: %w", err)
	}
	return &Socket{UnixListener: l, path: path, made: info}, nil
}

// Path returns where the socket is.
func (s *Socket) Path() string { return s.path }

// Close stops listening and removes the path, if it is still this socket's.
func (s *Socket) Close() error {
	err := s.UnixListener.Close()
	if errors.Is(err, net.ErrClosed) {
		err = nil // Serve closes its listener too
	}
	if now, statErr := os.Lstat(s.path); statErr == nil && os.SameFile(now, s.made) {
		err = errors.Join(err, os.Remove(s.path))
	}
	return err
}
