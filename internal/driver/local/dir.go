package local

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// beneath are the rules for every path component. They follow no symlink, not even one that
// stays inside the root (os.Root would follow it). They cross no mount point.
const beneath = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV

// dir is one open directory. Its methods take a single path component, and never follow a
// symlink or cross a mount point. They are safe for concurrent use.
type dir struct{ f *os.File }

// openDir opens an absolute path that must be a directory itself.
func openDir(path string) (*dir, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	return &dir{f}, nil
}

func (d *dir) close() { _ = d.f.Close() } // opened for reading, so a failed close loses nothing

func (d *dir) fd() int { return int(d.f.Fd()) }

// path is only for messages and for the mount table, never for opening.
func (d *dir) path() string { return d.f.Name() }

func component(name string) error {
	if name == "" || name == ".." || strings.ContainsAny(name, "/\x00") {
		return fmt.Errorf("%q is not one path component", name)
	}
	return nil
}

// open opens an entry with the flags of open(2). It never blocks on a FIFO.
func (d *dir) open(name string, flags int, perm uint32) (*os.File, error) {
	if err := component(name); err != nil {
		return nil, err
	}
	how := unix.OpenHow{
		Flags:   uint64(flags) | unix.O_CLOEXEC | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_NOCTTY,
		Resolve: beneath,
	}
	if flags&unix.O_CREAT != 0 {
		how.Mode = uint64(perm)
	}
	for {
		fd, err := unix.Openat2(d.fd(), name, &how)
		if errors.Is(err, unix.EINTR) || errors.Is(err, unix.EAGAIN) {
			continue // EAGAIN: a rename raced with the lookup (openat2(2))
		}
		if err != nil {
			return nil, &os.PathError{Op: "open", Path: d.path() + "/" + name, Err: err}
		}
		// A regular file ignores O_NONBLOCK. Without it os.NewFile does not try to poll what
		// cannot be polled.
		if err := unix.SetNonblock(fd, false); err != nil {
			_ = unix.Close(fd)
			return nil, fmt.Errorf("open %s: %w", name, err)
		}
		return os.NewFile(uintptr(fd), d.path()+"/"+name), nil
	}
}

// sub opens a directory in d. The name "." opens d again, with its own offset.
func (d *dir) sub(name string) (*dir, error) {
	f, err := d.open(name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	return &dir{f}, nil
}

// entry has the properties of one directory entry.
type entry struct {
	mode     uint32 // type and permission bits, as in stat(2)
	ino      uint64
	birth    int64 // ns since 1970
	changed  int64 // ns since 1970: ctime
	modified time.Time
	size     int64 // bytes, apparent
	blocks   int64 // bytes, allocated
	uid, gid uint32
	links    uint32 // the number of its names
	mount    uint64
}

func (e entry) isDir() bool     { return e.mode&unix.S_IFMT == unix.S_IFDIR }
func (e entry) isRegular() bool { return e.mode&unix.S_IFMT == unix.S_IFREG }
func (e entry) isSymlink() bool { return e.mode&unix.S_IFMT == unix.S_IFLNK }

// same reports whether two looks saw the same file. The system uses an inode's number again,
// but never with the same birth time.
func (e entry) same(other entry) bool { return e.ino == other.ino && e.birth == other.birth }

// kind names the type of an entry that is no file, directory or symlink.
func (e entry) kind() string {
	switch e.mode & unix.S_IFMT {
	case unix.S_IFIFO:
		return "a FIFO"
	case unix.S_IFSOCK:
		return "a socket"
	case unix.S_IFCHR, unix.S_IFBLK:
		return "a device node"
	default:
		return "of an unknown type"
	}
}

// stat looks at an entry and follows no symlink.
func (d *dir) stat(name string) (entry, error) {
	if err := component(name); err != nil {
		return entry{}, err
	}
	return statAt(d, name, unix.AT_SYMLINK_NOFOLLOW)
}

// self looks at the directory itself.
func (d *dir) self() (entry, error) { return statAt(d, "", unix.AT_EMPTY_PATH) }

func statAt(d *dir, name string, flags int) (entry, error) {
	return statx(d.fd(), name, flags, d.path())
}

// statx looks at name in the directory fd. Path is for messages.
func statx(fd int, name string, flags int, path string) (entry, error) {
	const mask = unix.STATX_BASIC_STATS | unix.STATX_BTIME | unix.STATX_MNT_ID
	var st unix.Statx_t
	if err := unix.Statx(fd, name, flags|unix.AT_NO_AUTOMOUNT, mask, &st); err != nil {
		return entry{}, &os.PathError{Op: "statx", Path: path + "/" + name, Err: err}
	}
	if st.Mask&unix.STATX_BTIME == 0 {
		return entry{}, fmt.Errorf("%s: its file system does not record when a directory was made", path)
	}
	return entry{
		mode: uint32(st.Mode), ino: st.Ino, size: int64(st.Size), blocks: int64(st.Blocks) * 512,
		birth:    st.Btime.Sec*1e9 + int64(st.Btime.Nsec),
		changed:  st.Ctime.Sec*1e9 + int64(st.Ctime.Nsec),
		modified: time.Unix(st.Mtime.Sec, int64(st.Mtime.Nsec)),
		uid:      st.Uid, gid: st.Gid, links: st.Nlink, mount: st.Mnt_id,
	}, nil
}

// each calls fn for every entry, in no order. It holds a few hundred names in memory at a time.
// A directory that is removed meanwhile has no more entries.
func (d *dir) each(fn func(name string) error) error {
	again, err := d.sub(".")
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer again.close()
	for {
		names, err := again.f.Readdirnames(512)
		for _, name := range names {
			if err := fn(name); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) || errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// nameLocks lets only one piece of work at a time act on a name. Reconcile already runs a
// target's steps one after the other; these locks are a second protection.
type nameLocks struct {
	mu   sync.Mutex
	held map[string]*nameLock
}

type nameLock struct {
	sync.Mutex
	users int
}

// lock waits for the names, always in the same order. It returns the function that unlocks
// them.
func (n *nameLocks) lock(names ...string) (unlock func()) {
	slices.Sort(names)
	names = slices.Compact(names)
	unlocks := make([]func(), 0, len(names))
	for _, name := range names {
		unlocks = append(unlocks, n.lockOne(name))
	}
	return func() {
		for _, unlock := range slices.Backward(unlocks) {
			unlock()
		}
	}
}

func (n *nameLocks) lockOne(name string) (unlock func()) {
	n.mu.Lock()
	if n.held == nil {
		n.held = map[string]*nameLock{}
	}
	l := n.held[name]
	if l == nil {
		l = &nameLock{}
		n.held[name] = l
	}
	l.users++
	n.mu.Unlock()
	l.Lock()
	return func() {
		l.Unlock()
		n.mu.Lock()
		defer n.mu.Unlock()
		if l.users--; l.users == 0 {
			delete(n.held, name)
		}
	}
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K {
	keys := make([]K, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
