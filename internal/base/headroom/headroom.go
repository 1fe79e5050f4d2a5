// Package headroom keeps free disk space for signed work. If free space is below a threshold,
// it refuses unsigned work. It also holds a preallocated file. If another program filled the
// disk, it gives that file back slice by slice.
package headroom

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"gated/internal/base/refusal"
)

// The defaults are a part of the file system's size, but at most these bytes.
const (
	defaultPart = 8
	maxKeep     = 256 << 20
	maxReserve  = 64 << 20
)

// slice is how many bytes the reserve gives back at a time. They are enough for the decisions
// of one signed step, with its pages in the write-ahead log.
const slice = 512 << 10

// growth is how many bytes on disk one byte of a decision may take. That lasts until SQLite has
// moved it from the write-ahead log into the database.
const growth = 4

// Options set how much space is kept. A negative number means the default.
type Options struct {
	Keep    int64 // bytes of free space; below this, unsigned work is refused
	Reserve int64 // bytes of the preallocated file; 0: none

	// Free returns the free bytes and the size of a path's file system. If it is nil, the
	// kernel is asked.
	Free func(path string) (free, size int64, err error)
}

// Room is the space of one directory. It is safe for concurrent use.
type Room struct {
	dir, path string
	free      func(string) (int64, int64, error)

	mu      sync.Mutex
	keep    int64
	want    int64 // the full size of the reserve
	left    int64 // its current size
	pending int64 // admitted since the last commit; statfs does not show it yet
}

// Open looks at a directory, and at the reserve at path, which may be missing. Configure makes
// the reserve, Open does not.
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
		return nil, refusal.New(refusal.NotAllowed, "%s is not an ordinary file", path).
			WithHint("move it away; the daemon makes it anew")
	default:
		r.left = info.Size()
	}
	return r, nil
}

// Configure sets how much space is kept, and makes the reserve if there is room.
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

// Admit refuses unsigned work of so many bytes with Unavailable if the free space would fall
// below the threshold. Until Committed, admitted bytes count as written.
func (r *Room) Admit(bytes int64) error {
	free, _, err := r.free(r.dir)
	if err != nil {
		return refusal.New(refusal.Unavailable, "the free space of %s cannot be read: %v", r.dir, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if need := growth * bytes; free-r.pending-need < r.keep {
		return refusal.New(refusal.Unavailable,
			"%s has %d MiB of free space, and below %d MiB the gate takes only signed work", r.dir, free>>20, r.keep>>20).
			WithHint("free some space on that disk; approvals and rejections go on meanwhile (gated status)")
	}
	r.pending += growth * bytes
	return nil
}

// Committed says that the free space now shows everything that was admitted.
func (r *Room) Committed() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pending = 0
}

// Make makes room for signed work. It takes a slice from the reserve if less than one slice is
// free, or if full says that a write failed. It reports whether it took one.
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

// Refill fills the reserve again, as long as the free space stays above the threshold.
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
		err = errors.Join(err, f.Truncate(r.left)) // a reserve that is half allocated must not count as whole
	} else {
		r.left = r.want
	}
	return errors.Join(err, f.Close())
}

// State is the state of the room that people see.
type State struct {
	Free, Keep     int64 // bytes
	Reserve, Whole int64 // current and full size of the reserve, in bytes
}

// Low reports whether unsigned work is refused.
func (s State) Low() bool { return s.Free < s.Keep }

// State looks at the current free space.
func (r *Room) State() (State, error) {
	free, _, err := r.free(r.dir)
	r.mu.Lock()
	defer r.mu.Unlock()
	return State{Free: free, Keep: r.keep, Reserve: r.left, Whole: r.want}, err
}

// allocate takes space from the file system. If the file system has no call for that, allocate
// writes random bytes, because no file system can compress them.
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

// statfs counts the bytes that this process may still write. Bytes that a file system keeps for
// root count only for root.
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
