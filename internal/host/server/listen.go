package server

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"gated/internal/base/refusal"
)

// MaxSocketPath is the longest socket path in bytes: sun_path has 108 with the
// final NUL (unix(7)).
const MaxSocketPath = 107

// probeTimeout is how long a socket that exists may take to accept.
const probeTimeout = 2 * time.Second

// Socket is a listening socket and its path.
type Socket struct {
	*net.UnixListener
	path    string
	made    fs.FileInfo
	adopted bool // a service manager made it, and keeps it
	closing sync.Once
}

// Listen makes a unix socket at path: mode 0600, or 0660 with that group if gid is not negative. It refuses, as
// Conflict, a path with a live daemon's socket or any other file. It removes a dead socket. It makes a missing
// directory, one level.
//
// Listen binds the socket in a private directory. It moves it to path when owner and mode are final, so that at no
// moment another user may connect, whatever the umask is.
func Listen(path string, gid int) (*Socket, error) {
	if !filepath.IsAbs(path) {
		return nil, refusal.New(refusal.Malformed, "the socket path %q is not absolute", path)
	}
	if len(path) > MaxSocketPath {
		return nil, refusal.New(refusal.Malformed, "the socket path has %d bytes, a unix socket can have %d: %s", len(path),
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

// lockPath makes other daemons that start at the same path wait. Otherwise one may move away as dead the socket that
// another has just put there, and a third may take the path before it is put back. The file stays: if it were removed,
// two daemons could hold a lock.
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
	return nil, refusal.New(refusal.Conflict, "the socket's lock %s cannot be taken: %v", path, err).
		WithHint("it belongs to the daemon's user; choose another path with --socket")
}

// makeDir makes the socket's directory. Other users may pass through it: the socket's own mode decides who may connect.
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

// CheckPlace tells in advance whether Listen may write at the socket's place. It refuses as Listen does, and makes
// nothing.
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

// barred reports whether the caller chose a place that does not exist or that the caller may not write to.
func barred(err error) bool {
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.EROFS) || errors.Is(err, fs.ErrNotExist)
}

// noPlace refuses a place for the socket, and names a place that every user has.
func noPlace(what string, err error) error {
	return refusal.New(refusal.NotAllowed, "%s: %v", what, err).
		WithHint("choose a place of your own, for the daemon and in every shell that asks it: export GATED_SOCKET=$HOME/.gated.sock (or --socket)")
}

// clearDead removes a dead socket at path. It first moves the socket aside and tests it again there, because another
// daemon may have put its own meanwhile.
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

// checkDead returns nil if the path is free, or is a socket that no daemon listens on.
func checkDead(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("look at the socket path: %w", err)
	case info.Mode().Type() != fs.ModeSocket:
		return refusal.New(refusal.Conflict, "%s exists and is not a socket", path).
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
		return taken(path) // its queue is full, so a daemon listens
	default:
		return refusal.New(refusal.Conflict, "%s exists and cannot be asked: %v", path, err).
			WithHint("stop the program that listens there, or choose another path with --socket")
	}
}

func taken(path string) error {
	return refusal.New(refusal.Conflict, "another daemon listens on %s", path).
		WithHint("stop it, or choose another path with --socket")
}

// bind makes the socket s in dir. It uses a descriptor's path, because dir's path may be longer than a socket's can be.
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
	// Close would remove a path that another socket may have by then.
	l.SetUnlinkOnClose(false)
	mode := fs.FileMode(0o600)
	if gid >= 0 {
		mode = 0o660
		if err := os.Lchown(short, -1, gid); err != nil {
			return nil, errors.Join(refusal.New(refusal.Conflict, "the socket cannot be given to group %d: %v", gid, err).
				WithHint("let the daemon run as a member of socket_group"), l.Close())
		}
	}
	if err := os.Chmod(short, mode); err != nil {
		return nil, errors.Join(fmt.Errorf("make the socket: %w", err), l.Close())
	}
	return l, nil
}

// publish puts the finished socket at its path. A link, unlike a rename, never replaces another daemon's socket.
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

// Path returns the socket's path.
func (s *Socket) Path() string { return s.path }

// Adopted reports whether a service manager made the socket. Then its mode and group are the socket unit's.
func (s *Socket) Adopted() bool { return s.adopted }

// Close stops listening. It removes the path, if it is still this socket's and Listen made it. The first call does all of it,
// because Server.Serve and net/http both close the socket, perhaps at once.
func (s *Socket) Close() (err error) {
	s.closing.Do(func() { err = s.close() })
	return err
}

func (s *Socket) close() error {
	err := s.UnixListener.Close()
	if s.adopted {
		return err
	}
	if now, statErr := os.Lstat(s.path); statErr == nil && os.SameFile(now, s.made) {
		err = errors.Join(err, os.Remove(s.path))
	}
	return err
}
