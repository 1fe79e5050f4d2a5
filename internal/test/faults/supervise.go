package faults

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Supervisor decides the calls of one program and of those that it starts.
type Supervisor struct {
	listener int
	dir      string
	ended    chan struct{} // closed when the last process behind the filter is gone

	mu    sync.Mutex
	fault Fault
	armed bool
	seen  int    // calls since Arm that count
	hit   []Call // of these, those that failed
	err   error  // the supervisor's own
}

// The kernel's structures (linux/seccomp.h).
type notification struct {
	id    uint64
	pid   uint32
	flags uint32
	nr    int32
	arch  uint32
	ip    uint64
	args  [6]uint64
}

type response struct {
	id    uint64
	val   int64
	error int32
	flags uint32
}

// goOn is SECCOMP_USER_NOTIF_FLAG_CONTINUE: the kernel does the call.
const goOn = 1

// Arm has calls fail from now on, and forgets what was counted.
func (s *Supervisor) Arm(f Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault, s.armed, s.seen, s.hit = f, true, 0, nil
}

// Disarm lets every call through again, and returns how many were counted since
// Arm and which failed.
func (s *Supervisor) Disarm() (seen int, hit []Call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.armed = false
	return s.seen, s.hit
}

// Wait returns when every process behind the filter is gone, with what went
// wrong in the supervisor itself.
func (s *Supervisor) Wait() error {
	<-s.ended
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

func (s *Supervisor) run() {
	defer close(s.ended)
	err := s.serve()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = errors.Join(s.err, err, unix.Close(s.listener))
}

// serve answers calls until nobody is left who could make one.
func (s *Supervisor) serve() error {
	for {
		p := []unix.PollFd{{Fd: int32(s.listener), Events: unix.POLLIN}}
		if _, err := unix.Poll(p, -1); errors.Is(err, unix.EINTR) {
			continue
		} else if err != nil {
			return err
		}
		if p[0].Revents&unix.POLLIN == 0 {
			return nil // hung up
		}
		var n notification
		switch errno := s.ioctl(unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(&n)); errno {
		case 0:
		case unix.EINTR, unix.ENOENT: // a signal came first, or the process is gone
			continue
		default:
			return fmt.Errorf("take a call: %w", errno)
		}
		r := s.decide(n)
		if errno := s.ioctl(unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&r)); errno != 0 && errno != unix.ENOENT {
			return fmt.Errorf("answer a call: %w", errno)
		}
	}
}

func (s *Supervisor) ioctl(request uintptr, arg unsafe.Pointer) syscall.Errno {
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(s.listener), request, uintptr(arg))
	return errno
}

// decide says what becomes of a call.
func (s *Supervisor) decide(n notification) response {
	through := response{id: n.id, flags: goOn}
	w := calls[n.nr]
	path, ok := n.path(w)
	if !ok {
		return through // what the process asks is wrong, and the kernel says so better
	}
	if w.kind == Open {
		if val, mine := s.asked(path); mine {
			return response{id: n.id, val: val}
		}
	}
	if !strings.HasPrefix(path, s.dir+"/") && path != s.dir {
		return through
	}
	if errno := s.count(Call{w.kind, path}); errno != 0 {
		return response{id: n.id, error: -int32(errno)}
	}
	return through
}

// count counts a call and says with what it fails; 0 is not at all.
func (s *Supervisor) count(c Call) syscall.Errno {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.armed || s.fault.Only != 0 && c.Kind != s.fault.Only {
		return 0
	}
	s.seen++
	if s.seen != s.fault.Nth && (!s.fault.Lasting || s.seen < s.fault.Nth) {
		return 0
	}
	s.hit = append(s.hit, c)
	return s.fault.Errno
}

// path returns what file a call is about. The process waits meanwhile, so that
// its memory and its descriptors stay as they are, but for its other threads.
func (n *notification) path(w where) (string, bool) {
	if w.path < 0 {
		return n.link(fmt.Sprintf("fd/%d", int32(n.args[w.fd])))
	}
	name, ok := n.text(uintptr(n.args[w.path]))
	if !ok || filepath.IsAbs(name) {
		return filepath.Clean(name), ok
	}
	at := "cwd"
	if w.dir >= 0 && int32(n.args[w.dir]) != unix.AT_FDCWD {
		at = fmt.Sprintf("fd/%d", int32(n.args[w.dir]))
	}
	dir, ok := n.link(at)
	return filepath.Join(dir, name), ok
}

func (n *notification) link(name string) (string, bool) {
	path, err := os.Readlink(fmt.Sprintf("/proc/%d/%s", n.pid, name))
	return strings.TrimSuffix(path, " (deleted)"), err == nil
}

// text reads a path out of the process, page by page: the next one may not be
// there.
func (n *notification) text(at uintptr) (string, bool) {
	const page = 4096
	var text []byte
	for len(text) < unix.PathMax {
		part := make([]byte, page-int(at%page))
		got, err := unix.ProcessVMReadv(int(n.pid), []unix.Iovec{{Base: &part[0], Len: uint64(len(part))}},
			[]unix.RemoteIovec{{Base: at, Len: len(part)}}, 0)
		if err != nil || got == 0 {
			return "", false
		}
		before, _, ended := strings.Cut(string(part[:got]), "\x00")
		text = append(text, before...)
		if ended {
			return string(text), true
		}
		at += uintptr(got)
	}
	return "", false
}
