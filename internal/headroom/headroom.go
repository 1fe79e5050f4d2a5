// Package headroom keeps free disk space for signed work. Below a threshold of
// free space it admits no work that nobody signed, and it holds a preallocated
// file, which it gives back slice by slice when another program filled the disk.
package headroom

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"gated/internal/op"
)

// The defaults are a part of the file system, and at most these bytes.
const (
	defaultPart = 8
	maxKeep     = 256 << 20
	maxReserve  = 64 << 20
)

// slice is how much the reserve gives back at a time, in bytes: enough for the
// decisions of one signed step with its pages in the write-ahead log.
const slice = 512 << 10

// growth is how many bytes of a file system one byte of a decision may take until
// SQLite has moved it from the write-ahead log into the database.
const growth = 4

// Options say how much is kept; a negative number asks for the default.
type Options struct {
	Keep    int64 // bytes of free space below which unsigned work is refused
	Reserve int64 // bytes of the preallocated file; 0: none

	// Free returns the free bytes and the size of the file system of a path. Nil
	// asks the kernel.
	Free func(path string) (free, size int64, err error)
}

// Room is the space of one directory. It is safe for concurrent use.
type Room struct {
	dir, path string
	free      func(string) (int64, int64, error)

	mu      sync.Mutex
	keep    int64
	want    int64 // the size of the reserve when it is whole
	left    int64 // the size that it has now
	pending int64 // admitted since the last commit, which statfs does not show yet
}

// Open looks at a directory and the reserve at path, which need not be there yet.
// It makes none: that is Configure's.
func Open(dir, path string, o Options) (*Room, error) {
	r := &Room{dir: dir, path: path, free: o.Free}
	if r.free == nil {
		r.free = statfs
	}
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, op.Refuse(op.NotAllowed, "%s is not an ordinary file", path).WithHint("move it away; the daemon makes it anew")
	default:
		r.left = info.Size()
	}
	return r, nil
}

// Configure sets how much is kept, and makes the reserve where there is room.
func (r *Room) Configure(o Options) error {
	_, size, err := r.free(r.dir)
	if err != nil {
		return fmt.Errorf("free space of %s: %w", r.dir, err)
	}
	r.mu.Lock()
	r.keep, r.want = o.Keep, o.Reserve
	if r.keep < 0 {
		r.keep = min(maxKeep, size/defaultPart)
	}
	if r.want < 0 {
		r.want = min(maxReserve, size/defaultPart)
	}
	r.mu.Unlock()
	return r.Refill()
}

// Admit refuses, as Unavailable, unsigned work of so many bytes if the disk would
// have less free space than is kept. Until Committed, what it admitted counts as
// written.
func (r *Room) Admit(bytes int64) error {
	free, _, err := r.free(r.dir)
	if err != nil {
		return op.Refuse(op.Unavailable, "the free space of %s cannot be read: %v", r.dir, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if need := growth * bytes; free-r.pending-need < r.keep {
		return op.Refuse(op.Unavailable, "%s has %d MiB of free space, and below %d MiB the gate takes only signed work", r.dir, free>>20, r.keep>>20).
			WithHint("free some space on that disk; approvals and rejections go on meanwhile (gated status)")
	}
	r.pending += growth * bytes
	return nil
}

// Committed says that what was admitted shows in the free space by now.
func (r *Room) Committed() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pending = 0
}

// Make gives signed work room: if less than one slice is free, or full says that a
// write has failed, it takes a slice from the reserve. It reports whether it did.
func (r *Room) Make(full bool) bool {
	free, _, err := r.free(r.dir)
	if err == nil && !full && free >= slice {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.left == 0 {
		return false
	}
	left := max(0, r.left-slice)
	if err := os.Truncate(r.path, left); err != nil {
		return false
	}
	r.left = left
	return true
}

// Refill makes the reserve whole again, as far as there is room above what is kept.
func (r *Room) Refill() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.left > r.want {
		if err := os.Truncate(r.path, r.want); err != nil {
			return err
		}
		r.left = r.want
	}
	free, _, err := r.free(r.dir)
	if err != nil || r.left == r.want || free-(r.want-r.left) < r.keep {
		return err
	}
	f, err := os.OpenFile(r.path, os.O_WRONLY|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	err = allocate(f, r.left, r.want-r.left)
	if err != nil {
		err = errors.Join(err, f.Truncate(r.left)) // half of it would not be known of
	} else {
		r.left = r.want
	}
	return errors.Join(err, f.Close())
}

// State is what people are told of the room.
type State struct {
	Free, Keep     int64 // bytes
	Reserve, Whole int64 // bytes that the reserve has, and should have
}

// Low reports whether unsigned work is refused.
func (s State) Low() bool { return s.Free < s.Keep }

// State looks at the free space now.
func (r *Room) State() (State, error) {
	free, _, err := r.free(r.dir)
	r.mu.Lock()
	defer r.mu.Unlock()
	return State{Free: free, Keep: r.keep, Reserve: r.left, Whole: r.want}, err
}

// allocate takes space from the file system. Where that has no call for it, it
// writes what no file system can make smaller.
func allocate(f *os.File, from, n int64) error {
	err := unix.Fallocate(int(f.Fd()), 0, from, n)
	if !errors.Is(err, unix.EOPNOTSUPP) && !errors.Is(err, unix.ENOSYS) {
		return err
	}
	part := make([]byte, 64<<10)
	for n > 0 {
		rand.Read(part) // never fails (crypto/rand)
		some, err := f.WriteAt(part[:min(n, int64(len(part)))], from)
		if err != nil {
			return err
		}
		from, n = from+int64(some), n-int64(some)
	}
	return f.Sync()
}

// statfs counts what this process may still write: what a file system keeps for
// root is free for root alone.
func statfs(path string) (free, size int64, err error) {
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		return 0, 0, err
	}
	blocks := s.Bavail
	if os.Geteuid() == 0 {
		blocks = s.Bfree
	}
	return int64(blocks) * s.Bsize, int64(s.Blocks) * s.Bsize, nil
}
