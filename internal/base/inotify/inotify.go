// Package inotify watches one directory for complete files: closed by their writer, moved or
// deleted. So no reader gets half a file.
package inotify

import (
	"encoding/binary"
	"errors"
	"os"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// A file counts as changed if its writer closed it, or if a rename or a delete moved it in or
// out. IN_MODIFY says that a program is writing to it.
const watched = unix.IN_CLOSE_WRITE | unix.IN_MOVED_TO | unix.IN_MOVED_FROM | unix.IN_DELETE | unix.IN_MODIFY |
	unix.IN_DELETE_SELF | unix.IN_MOVE_SELF | unix.IN_ONLYDIR

// Watch is an inotify watch on one directory, which may appear and disappear. A goroutine reads
// events and announces them. A caller that is about to read files also reads events first, so
// that it knows every earlier write. Watch is safe for concurrent use.
type Watch struct {
	about   func(name string) bool
	f       *os.File
	fd      int
	changed chan struct{} // has room for one

	mu     sync.Mutex
	wd     int // -1 if nothing is watched
	dir    dirID
	events map[string]bool // closed, moved or deleted
	open   map[string]bool // written to and not closed
	gone   map[string]bool // moved away or deleted, with no whole file in its place since
	lost   bool            // events may be missing
	closed bool            // fd is closed
	buf    []byte
}

// maxGone is the most files that the watch remembers as gone. Above it, the watch forgets them
// all.
const maxGone = 4096

type dirID struct{ dev, ino uint64 }

// New returns a watch that watches nothing yet. about says which files of a directory need an
// announcement. It must not block.
func New(about func(name string) bool) (*Watch, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, err
	}
	w := &Watch{about: about, f: os.NewFile(uintptr(fd), "inotify"), fd: fd, changed: make(chan struct{}, 1), wd: -1,
		events: map[string]bool{}, open: map[string]bool{}, gone: map[string]bool{}, buf: make([]byte, 64<<10)}
	raw, err := w.f.SyscallConn()
	if err != nil {
		return nil, errors.Join(err, w.f.Close())
	}
	go func() {
		// Read calls this function again when there is something to read, until the file is
		// closed.
		_ = raw.Read(func(uintptr) bool {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.drain()
			return false
		})
	}()
	return w, nil
}

// Close ends the watch. After that, Take and Writing report nothing.
func (w *Watch) Close() error {
	w.mu.Lock()
	w.closed, w.wd = true, -1
	w.mu.Unlock()
	return w.f.Close()
}

// Changed receives after files were closed, moved or deleted. One receive may stand for several
// changes.
func (w *Watch) Changed() <-chan struct{} { return w.changed }

// Announce tells the reader to read the directory again.
func (w *Watch) Announce() {
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// Take returns the files that changed since the last call. If all is true, these are all
// changes, because the directory was watched all the time. If the directory was not watched, or
// if the path leads to another one now, Take watches it.
func (w *Watch) Take(path string, dir *os.File) (events map[string]bool, all bool) {
	var st unix.Stat_t
	err := unix.Fstat(int(dir.Fd()), &st)
	id := dirID{st.Dev, st.Ino}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.drain()
	all = err == nil && w.wd >= 0 && w.dir == id && !w.lost
	events = w.events
	w.events, w.lost = map[string]bool{}, false
	if !all {
		w.add(path, id, err == nil)
		events = map[string]bool{}
	}
	return events, all
}

// add watches the directory; the caller holds w.mu. Without a watch, changes are found only at
// the reader's interval.
func (w *Watch) add(path string, id dirID, ok bool) {
	if w.wd >= 0 && w.dir != id {
		_, _ = unix.InotifyRmWatch(w.fd, uint32(w.wd)) // the watch may be gone already
		w.wd = -1
	}
	w.forget()
	if !ok || w.closed {
		return
	}
	wd, err := unix.InotifyAddWatch(w.fd, path, watched)
	if err != nil {
		w.wd = -1
		return
	}
	w.wd, w.dir = wd, id
}

// Writing reports whether a program wrote to the file and has not closed it.
func (w *Watch) Writing(name string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.drain()
	return w.open[name]
}

// Gone reports whether the file was moved away or deleted, without a whole file in its place
// since. If a file is there, a program is still writing it.
func (w *Watch) Gone(name string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.drain()
	return w.gone[name]
}

// forget drops everything that is known about files; the caller holds w.mu.
func (w *Watch) forget() {
	clear(w.open)
	clear(w.gone)
}

// drain reads the kernel's events; the caller holds w.mu. It never blocks.
func (w *Watch) drain() {
	for !w.closed {
		n, err := unix.Read(w.fd, w.buf)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || n <= 0 {
			return
		}
		w.parse(w.buf[:n])
	}
}

// parse reads events in the kernel's format (inotify(7)): watch, mask, cookie and the length of
// the name, four bytes each, then the name and NULs.
func (w *Watch) parse(b []byte) {
	worth := false
	for len(b) >= unix.SizeofInotifyEvent {
		wd := int32(binary.NativeEndian.Uint32(b))
		mask := binary.NativeEndian.Uint32(b[4:])
		n := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(b[12:]))
		if n > len(b) { // half an event; the kernel never returns one
			w.lost, worth = true, true
			w.forget()
			break
		}
		name, _, _ := strings.Cut(string(b[unix.SizeofInotifyEvent:n]), "\x00")
		b = b[n:]
		switch {
		case mask&unix.IN_Q_OVERFLOW != 0:
			w.lost, worth = true, true
			w.forget()
		case int(wd) != w.wd:
		case mask&(unix.IN_DELETE_SELF|unix.IN_MOVE_SELF|unix.IN_UNMOUNT|unix.IN_IGNORED) != 0:
			w.wd, w.lost, worth = -1, true, true
			w.forget()
		case !w.about(name):
		case mask&unix.IN_MODIFY != 0:
			w.open[name] = true
		default:
			w.went(name, mask&(unix.IN_MOVED_FROM|unix.IN_DELETE) != 0)
			worth = true
		}
	}
	if worth {
		w.Announce()
	}
}

// went records that a file is whole or gone; the caller holds w.mu.
func (w *Watch) went(name string, away bool) {
	delete(w.open, name)
	delete(w.gone, name)
	if away {
		if len(w.gone) >= maxGone {
			clear(w.gone)
		}
		w.gone[name] = true
	}
	w.events[name] = true
}
